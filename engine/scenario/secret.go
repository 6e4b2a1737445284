package scenario

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minSecret is the fewest bytes of a value that is taken for a secret: fewer would
// be found in ordinary text.
const minSecret = 4

var (
	// coded is what is set in code marks.
	coded = regexp.MustCompile("`([^`\n]+)`")

	// quoted is a value that says itself where it ends.
	quoted = regexp.MustCompile("^[`\"']([^`\"'\n]+)[`\"']")

	// odd is what a word of ordinary text does not have.
	odd = regexp.MustCompile(`[0-9!@#$%^&*+=?_~-]`)

	// pair is a user and a password, as in "alice / hunter2".
	pair = regexp.MustCompile(`(\S+)\s+/\s+(\S+)`)

	// email is an address, which is the name of a user as often as not.
	email = regexp.MustCompile("[^\\s<>()|,;:\"'`]+@[^\\s<>()|,;:\"'`]+\\.[A-Za-z]+")

	// entry is a line of a list that says one thing, as in "- alice: hunter2".
	entry = regexp.MustCompile(`^[-*]\s+[^:]+:\s+(\S+)$`)

	// strong is what a password has and hardly a word.
	strong = regexp.MustCompile(`[0-9!@#$%^&*+=?]`)

	// userinfo is who signs in by an address, as in http://alice:hunter2@127.0.0.1/.
	userinfo = regexp.MustCompile("(?i)([a-z][a-z0-9+.-]*://)([^\\s/?#:@\"'`<>]+)(?::([^\\s/?#\"'`<>]*))?@")

	// scheme is what a value of the Authorization header begins with.
	scheme = regexp.MustCompile(`(?i)^(bearer|basic|token)\s+`)
)

// Secrets are the values of prd.md that must appear nowhere, the longest first: of
// every line that names one, what it says it is; of every address, who signs in by
// it; below a heading about signing in, also what is set as code, what looks like a
// user and a password, and the cells of tables. Where a value ends is not always
// clear: then it is kept in several lengths.
func Secrets(prd string) []string {
	var secrets []string
	for _, s := range topics(prd) {
		for l := range strings.Lines(s.body) {
			secrets = append(secrets, addressed(l)...)
			l = strings.TrimSpace(withoutUser(l))
			secrets = append(secrets, named(l)...)
			if s.secret {
				secrets = append(secrets, shown(l)...)
			}
		}
	}
	for _, v := range slices.Clone(secrets) {
		secrets = append(secrets, escaped(v, "+"), escaped(v, "%20"))
	}
	secrets = slices.DeleteFunc(secrets, func(v string) bool { return len(v) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(secrets)
}

// addressed are the user and the password of the addresses in a line: as they are
// written there, as they are typed, and as a request has them in its header.
func addressed(line string) []string {
	var values []string
	for _, m := range userinfo.FindAllStringSubmatch(line, -1) {
		user, password := unescaped(m[2]), unescaped(m[3])
		values = append(values, m[2], user, m[3], password)
		if password != "" {
			both := user + ":" + password
			values = append(values, m[2]+":"+m[3], both, base64.StdEncoding.EncodeToString([]byte(both)))
		}
	}
	return values
}

// percent is a byte as an address has it.
var percent = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescaped is text of an address as it is typed.
func unescaped(text string) string {
	return percent.ReplaceAllStringFunc(text, func(code string) string {
		b, _ := strconv.ParseUint(code[1:], 16, 8) // it is one
		return string([]byte{byte(b)})
	})
}

// escaped is text as an address or a form has it, which differ in what they make of
// a space.
func escaped(text, space string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == ' ':
			b.WriteString(space)
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// withoutUser takes who signs in out of the addresses in text.
func withoutUser(text string) string { return userinfo.ReplaceAllString(text, "$1") }

// named are the values that a line gives to names of secrets.
func named(line string) []string {
	var values []string
	for _, at := range confidential.FindAllStringIndex(line, -1) {
		rest := strings.TrimLeft(strings.TrimSpace(strings.TrimPrefix(line[at[1]:], "**")), " \t")
		rest = scheme.ReplaceAllString(rest, "")
		if m := quoted.FindStringSubmatch(rest); m != nil {
			values = append(values, m[1])
			continue
		}
		values = append(values, bare(rest))
		if end := strings.IndexAny(rest, ",;|"); end >= 0 {
			values = append(values, bare(rest[:end]))
		}
		if first, _, more := strings.Cut(rest, " "); more && odd.MatchString(bare(first)) {
			values = append(values, bare(first))
		}
	}
	return values
}

// shown are the values in a line below a heading about signing in.
func shown(line string) []string {
	var values []string
	for _, m := range coded.FindAllStringSubmatch(line, -1) {
		values = append(values, m[1])
	}
	for _, m := range pair.FindAllStringSubmatch(line, -1) {
		values = append(values, bare(m[1]), bare(m[2]))
	}
	values = append(values, email.FindAllString(line, -1)...)
	if m := entry.FindStringSubmatch(line); m != nil && strong.MatchString(m[1]) && !strings.HasPrefix(m[1], "/") && !strings.Contains(m[1], "://") {
		values = append(values, bare(m[1]))
	}
	if strings.HasPrefix(line, "|") {
		for cell := range strings.SplitSeq(line, "|") {
			if v := bare(cell); odd.MatchString(v) && strings.Trim(v, "-:") != "" {
				values = append(values, v)
			}
		}
	}
	return values
}

// bare is a value without what sets it off.
func bare(value string) string { return strings.Trim(value, " \t`\"'*,;|") }
