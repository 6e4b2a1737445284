package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// BaseURLVar is the variable with the address of the application.
const BaseURLVar = "BASE_URL"

// Vars are the values of the variables in the files of a scenario and in prd.md.
type Vars struct {
	Values map[string]string
	Used   map[string]bool // names that Expand has used
}

// variable matches ${NAME} and ${NAME:-default}. It also matches $${NAME}, which expands
// to the text ${NAME}.
var variable = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}\n]*))?\}`)

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseVars parses arguments of the form NAME=VALUE.
func ParseVars(given []string) (Vars, error) {
	v := Vars{Values: map[string]string{}, Used: map[string]bool{}}
	for _, g := range given {
		name, value, found := strings.Cut(g, "=")
		if !found || !varName.MatchString(name) {
			return v, fmt.Errorf("%.80q is not a variable; give NAME=VALUE, with a name of letters, digits and _", g)
		}
		v.Values[name] = value
	}
	return v, nil
}

// Expand replaces the variables in a file. If one has no value, the error names its
// line.
func (v Vars) Expand(file, content string) (string, error) {
	var missing error
	number := 0
	var b strings.Builder
	for line := range strings.Lines(content) {
		number++
		b.WriteString(variable.ReplaceAllStringFunc(line, func(found string) string {
			if plain, escaped := strings.CutPrefix(found, "$$"); escaped {
				return "$" + plain
			}
			m := variable.FindStringSubmatch(found)
			v.Used[m[1]] = true
			value, ok := v.Values[m[1]]
			switch {
			case ok:
				return value
			case strings.Contains(found, ":-"):
				return m[2]
			case missing == nil:
				missing = fmt.Errorf("%s, line %d: ${%s} has no value; give %s, or write $${%s} for the text itself", file, number, m[1], remedy(m[1]), m[1])
			}
			return found
		}))
	}
	return b.String(), missing
}

func remedy(name string) string {
	if name == BaseURLVar {
		return "--base-url URL, or the section Base URL in prd.md"
	}
	return "--var " + name + "=VALUE"
}

// Unused returns the variables that no file has, sorted.
func (v Vars) Unused() []string {
	var unused []string
	for name := range v.Values {
		if !v.Used[name] && name != BaseURLVar {
			unused = append(unused, name)
		}
	}
	slices.Sort(unused)
	return unused
}

// isAddress reports whether a section of prd.md is the one with the address of the
// application.
func (s section) isAddress() bool {
	switch strings.ToLower(strings.Trim(s.heading, " :*")) {
	case "base url", "url":
		return true
	}
	return false
}

var webAddress = regexp.MustCompile("https?://[^\\s<>\"'`)]+")

// BaseURL returns the address in prd.md, or "" without an address.
func BaseURL(prd string) string {
	for _, s := range sections(prd) {
		if found := webAddress.FindString(s.body); s.isAddress() && found != "" {
			return strings.TrimRight(found, "/.,;")
		}
	}
	return ""
}

// WithBaseURL returns prd.md with another address.
func WithBaseURL(prd, url string) string {
	var b strings.Builder
	set := false
	for _, s := range sections(prd) {
		if s.isAddress() {
			if set {
				continue
			}
			s.body, set = "\n"+url+"\n\n", true
		}
		b.WriteString(s.whole())
	}
	if !set {
		b.WriteString("\n## Base URL\n\n" + url + "\n")
	}
	return b.String()
}
