package ignore

import (
	"regexp"
	"strings"
)

// translate returns the regular expression for a wildcard pattern. It matches the bytes of a
// path.
func translate(glob string) (expression string, ok bool) {
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

// quoteMember escapes a byte in a class.
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
