package scenario

import (
	"cmp"
	"regexp"
	"slices"
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
)

// Secrets are the values of prd.md that must appear nowhere, the longest first: of
// every line that names one, what it says it is; below a heading about signing in,
// also what is set as code, what looks like a user and a password, and the cells
// of tables. Where a value ends is not always clear: then it is kept in several
// lengths.
func Secrets(prd string) []string {
	var secrets []string
	for _, s := range sections(prd) {
		about := secret.MatchString(s.heading)
		for l := range strings.Lines(s.body) {
			secrets = append(secrets, named(strings.TrimSpace(l))...)
			if about {
				secrets = append(secrets, shown(strings.TrimSpace(l))...)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(v string) bool { return len(v) < minSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(secrets)
}

// named are the values that a line gives to names of secrets.
func named(line string) []string {
	var values []string
	for _, at := range confidential.FindAllStringIndex(line, -1) {
		rest := strings.TrimLeft(strings.TrimSpace(strings.TrimPrefix(line[at[1]:], "**")), " \t")
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
