package ignore

import (
	"path"
	"regexp"
	"strings"
)

// List is a list of patterns, the last of which wins. The zero List ignores nothing.
type List struct {
	// Above is the path of the tree in its repository; empty, or ending in "/".
	Above string

	patterns []pattern
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

// Ignores reports whether the last pattern that matches a path excludes it. The parents
// of the path must not be ignored.
func (l *List) Ignores(name string, dir bool) bool {
	ignored, _ := l.Match(name, dir)
	return ignored
}

// Match is Ignores. It also reports whether any pattern matches the path.
func (l *List) Match(name string, dir bool) (ignored, matched bool) {
	for i := len(l.patterns) - 1; i >= 0; i-- {
		if p := &l.patterns[i]; p.matches(l.Above+name, dir) {
			return !p.include, true
		}
	}
	return false, false
}

func (p *pattern) matches(name string, dir bool) bool {
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

// Add appends the lines of an ignore file in dir, a path within the tree.
func (l *List) Add(dir string, lines []string) {
	dir = l.Above + dir
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	for _, line := range lines {
		if p, ok := parse(line); ok {
			p.dir = dir
			l.patterns = append(l.patterns, p)
		}
	}
}

// parse translates a line as git does. Blank lines, comments and malformed
// patterns match nothing.
func parse(line string) (p pattern, ok bool) {
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
	expression, ok := translate(line)
	if !ok {
		return p, false
	}
	compiled, err := regexp.Compile("(?s)^" + expression + "$")
	p.glob = compiled
	return p, err == nil
}

// trimSpaces removes trailing spaces that are not escaped.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	escapes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if escapes%2 == 1 && len(trimmed) < len(line) {
		return trimmed + " "
	}
	return trimmed
}
