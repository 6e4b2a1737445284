package artifact

import (
	"path"
	"regexp"
	"strings"
)

// translateGlob returns the regular expression for a wildcard pattern. It matches the bytes of a path.
func translateGlob(glob string) (expression string, ok bool) {
	var b strings.Builder
	for at := 0; at < len(glob); {
		rest := glob[at:]
		start := at == 0 || glob[at-1] == '/'
		after := strings.TrimLeft(rest, "*")
		stars := len(rest) - len(after)
		switch {
		case start && stars > 1 && strings.HasPrefix(after, "/"):
			b.WriteString("(?:.*/)?")
			at += stars + 1
		case start && stars > 1 && after == "":
			b.WriteString(".+")
			at += stars
		case stars > 0:
			b.WriteString("[^/]*")
			at += stars
		case rest[0] == '?':
			b.WriteString("[^/]")
			at++
		case rest[0] == '[':
			class, n := translateClass(rest)
			if n == 0 {
				return "", false
			}
			b.WriteString(class)
			at += n
		case rest[0] == '\\' && len(rest) == 1:
			return "", false
		case rest[0] == '\\':
			b.WriteString(regexp.QuoteMeta(bytewise(rest[1:2])))
			at += 2
		default:
			b.WriteString(regexp.QuoteMeta(bytewise(rest[:1])))
			at++
		}
	}
	return b.String(), true
}

// translateClass translates the bracket expression at the start of glob and returns its
// length, or 0 if it is not closed. No class matches a slash.
func translateClass(glob string) (class string, n int) {
	at, negated := 1, false
	if at < len(glob) && (glob[at] == '!' || glob[at] == '^') {
		at, negated = at+1, true
	}
	var members strings.Builder
	for first := true; at < len(glob); first = false {
		switch {
		case glob[at] == ']' && !first:
			if negated {
				return "[^/" + members.String() + "]", at + 1
			}
			return "[" + members.String() + "]", at + 1
		case strings.HasPrefix(glob[at:], "[:"):
			end := strings.Index(glob[at:], ":]")
			if end < 0 {
				return "", 0
			}
			members.WriteString(glob[at : at+end+2])
			at += end + 2
			continue
		case glob[at] == '-' && !first && at+1 < len(glob) && glob[at+1] != ']':
			members.WriteByte('-')
			at++
			continue
		case glob[at] == '\\' && at+1 < len(glob):
			at++
		}
		if glob[at] != '/' {
			members.WriteString(quoteMember(glob[at]))
		}
		at++
	}
	return "", 0
}

func quoteMember(c byte) string {
	if strings.IndexByte(`\]-^[:&~`, c) >= 0 {
		return `\` + string(rune(c))
	}
	return string(rune(c))
}

// bytewise returns a string with one rune for each byte of s, because git compares bytes.
func bytewise(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			runes := make([]rune, len(s))
			for j := range len(s) {
				runes[j] = rune(s[j])
			}
			return string(runes)
		}
	}
	return s
}

// patterns is a list of patterns with the syntax of .gitignore, the last of which wins. The zero value ignores nothing.
type patterns struct {
	// above is the path of the tree in its repository; empty, or ending in "/".
	above string

	lines []pattern
}

// pattern is one line of an ignore file.
type pattern struct {
	dir     string // directory of the file; empty, or ending in "/"
	include bool   // the line begins with "!"
	dirs    bool   // it matches only directories
	base    bool   // it matches the last element of a path
	literal string // the pattern, if it has no wildcards
	glob    *regexp.Regexp
}

// ignoresPath reports whether the last pattern that matches a path excludes it. The parents
// of the path must not be ignored.
func (l *patterns) ignoresPath(name string, dir bool) bool {
	ignored, _ := l.matchPath(name, dir)
	return ignored
}

// matchPath is ignoresPath. It also reports whether any pattern matches the path.
func (l *patterns) matchPath(name string, dir bool) (ignored, matched bool) {
	for i := len(l.lines) - 1; i >= 0; i-- {
		if p := &l.lines[i]; p.matchesPath(l.above+name, dir) {
			return !p.include, true
		}
	}
	return false, false
}

func (p *pattern) matchesPath(name string, dir bool) bool {
	if p.dirs && !dir || !strings.HasPrefix(name, p.dir) {
		return false
	}
	name = name[len(p.dir):]
	if p.base {
		name = path.Base(name)
	}
	if p.glob == nil {
		return name == p.literal
	}
	return p.glob.MatchString(bytewise(name))
}

// addLines appends the lines of an ignore file in dir, a path within the tree.
func (l *patterns) addLines(dir string, lines []string) {
	dir = l.above + dir
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	for _, line := range lines {
		if p, ok := parsePattern(line); ok {
			p.dir = dir
			l.lines = append(l.lines, p)
		}
	}
}

// parsePattern translates a line as git does. Blank lines, comments and malformed patterns match nothing.
func parsePattern(line string) (p pattern, ok bool) {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return p, false
	}
	line, p.include = strings.CutPrefix(line, "!")
	line, p.dirs = strings.CutSuffix(line, "/")
	if line == "" {
		return p, false
	}
	p.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if !strings.ContainsAny(line, `*?[\`) {
		p.literal = line
		return p, line != ""
	}
	expression, ok := translateGlob(line)
	if !ok {
		return p, false
	}
	compiled, err := regexp.Compile("(?s)^" + expression + "$")
	p.glob = compiled
	return p, err == nil
}

func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	escapes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if escapes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}
