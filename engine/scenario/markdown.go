package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// draft is a step as its author writes it. Only title and actions are required.
type draft struct {
	Title         string
	Credentials   bool // the step reads the project's credentials
	Description   string
	Preconditions string
	Actions       string
	Expected      string
}

// Definition is a scenario as its author writes it.
type Definition struct {
	Title  string
	Steps  []draft
	Before string // text before the first step
}

// Bounds of a definition.
const (
	maxTitle = 200      // most characters of a title
	maxFile  = 64 << 10 // bytes of a step's file
)

// numbered matches the number in a step's heading. The number is dropped, because ids follow the position.
var numbered = regexp.MustCompile(`^(?i:step\s+)?\d{1,2}(\s*[.:)]|\s+[–—-])\s+`)

// ParseMarkdown reads a scenario from one file: an optional "# title", and for each step "##
// title" with any of the parts "### Description", "### Preconditions", "### Actions" and "###
// Expected Outcome". Text outside of these parts becomes the actions, or the description if
// the step has actions. Other headings belong to the part above them.
func ParseMarkdown(text string) (Definition, error) {
	var d Definition
	all := splitSections(text)
	first := slices.IndexFunc(all, isStep)
	if first < 0 {
		return d, errors.New("the file has no step: a step begins with a heading of two #, such as ## Open the shop")
	}
	for _, s := range all[:first] {
		if s.level == 1 {
			d.Title = cmp.Or(d.Title, s.heading)
			d.Before += strings.TrimSpace(s.body)
		} else {
			d.Before += strings.TrimSpace(s.withHeading())
		}
	}
	for rest := all[first:]; len(rest) > 0; {
		end := len(rest)
		if next := slices.IndexFunc(rest[1:], isStep); next >= 0 {
			end = 1 + next
		}
		step, err := parseDraft(rest[0], rest[1:end])
		if err != nil {
			return d, err
		}
		d.Steps = append(d.Steps, step)
		rest = rest[end:]
	}
	return d, nil
}

func isStep(s section) bool { return s.level == 2 }

func parseDraft(own section, below []section) (draft, error) {
	d := draft{Title: numbered.ReplaceAllString(own.heading, "")}
	loose := own.body
	part := &loose
	for _, s := range below {
		if s.level == 1 {
			return d, fmt.Errorf("the heading %q comes after a step: a file contains one scenario, with a heading of two # for each step", "# "+s.heading)
		}
		if named := d.partHeaded(s.heading); named != nil {
			part = named
			*part += s.body
		} else {
			*part += "\n" + s.withHeading()
		}
	}
	d.placeLoose(strings.TrimSpace(loose))
	d.trimParts()
	return d, nil
}

// section is a heading of a Markdown file and the text below it, up to the next
// heading. The text before the first heading is a section of level 0.
type section struct {
	level   int
	heading string
	line    int // number of the heading's line, from 1
	body    string
}

// splitSections splits Markdown at its headings. It ignores headings in fenced code.
func splitSections(markdown string) []section {
	all := []section{{}}
	fence := "" // fence of the code that a line is in; empty outside
	number := 0
	for line := range strings.Lines(normalizeMarkdown(markdown)) {
		number++
		fence = fenceAfter(fence, strings.TrimSpace(line))
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if fence == "" && level > 0 && level <= 6 && strings.HasPrefix(line[level:], " ") {
			all = append(all, section{level: level, heading: strings.TrimSpace(strings.Trim(line, "# \n")), line: number})
			continue
		}
		all[len(all)-1].body += line
	}
	return all
}

// normalizeMarkdown removes a byte order mark, which would hide the first heading, and carriage returns.
func normalizeMarkdown(markdown string) string {
	return strings.ReplaceAll(strings.TrimPrefix(markdown, "\ufeff"), "\r\n", "\n")
}

// fenceAfter returns the code fence that is open after a line. A fence is closed by one of the same kind.
func fenceAfter(fence, line string) string {
	if fence != "" {
		if strings.HasPrefix(line, fence) {
			return ""
		}
		return fence
	}
	for _, start := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, start) {
			return start
		}
	}
	return ""
}

func (s section) withHeading() string {
	if s.level == 0 {
		return s.body
	}
	return strings.Repeat("#", s.level) + " " + s.heading + "\n" + s.body
}

func (d *draft) partHeaded(heading string) *string {
	switch strings.ToLower(strings.Trim(heading, " :*")) {
	case "description":
		return &d.Description
	case "precondition", "preconditions":
		return &d.Preconditions
	case "action", "actions":
		return &d.Actions
	case "expected", "expected outcome", "expected outcomes", "expected result", "expected results":
		return &d.Expected
	}
	return nil
}

func (d *draft) placeLoose(loose string) {
	if rest, asks := strings.CutPrefix(loose+"\n", "credentials: true\n"); asks {
		d.Credentials, loose = true, strings.TrimSpace(rest)
	}
	switch {
	case loose == "":
	case strings.TrimSpace(d.Actions) == "":
		d.Actions = loose
	default:
		d.Description = strings.TrimSpace(loose + "\n\n" + strings.TrimSpace(d.Description))
	}
}

func (d *draft) trimParts() {
	for _, part := range []*string{&d.Title, &d.Description, &d.Preconditions, &d.Actions, &d.Expected} {
		*part = strings.TrimSpace(*part)
	}
}

// ParseStep reads "title: actions".
func ParseStep(line string) (draft, error) {
	title, actions, _ := strings.Cut(line, ":")
	d := draft{Title: title, Actions: actions}
	d.trimParts()
	if d.Title == "" || d.Actions == "" {
		return d, fmt.Errorf("the step %.80q: it takes a title and actions, such as %q", line, "Open the shop: go to the start page")
	}
	return d, nil
}

func (d draft) stepMarkdown(id string) string {
	var b strings.Builder
	if d.Credentials {
		b.WriteString("---\ncredentials: true\n---\n\n")
	}
	fmt.Fprintf(&b, "# %s %s\n", id, d.Title)
	for _, part := range []struct{ heading, text string }{
		{"Description", d.Description}, {"Preconditions", d.Preconditions}, {"Actions", d.Actions}, {"Expected Outcome", d.Expected},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.heading, part.text)
		}
	}
	return b.String()
}

// Plan numbers the steps and returns their files by name. It refuses a scenario that cannot
// run.
func (d Definition) Plan(slug string) (Plan, map[string]string, error) {
	p := Plan{Slug: slug, Title: cmp.Or(d.Title, slug)}
	if err := checkTitle("the scenario", p.Title); err != nil {
		return p, nil, err
	}
	files := map[string]string{}
	for i, step := range d.Steps {
		name := fmt.Sprintf("step %d", i+1)
		if err := checkTitle(name, step.Title); err != nil {
			return p, nil, err
		}
		if step.Actions == "" {
			return p, nil, fmt.Errorf("%s (%s) has no actions: describe them", name, step.Title)
		}
		id := fmt.Sprintf("%02d", i+1)
		ref := StepRef{ID: id, Title: step.Title, File: fileName(id, step.Title)}
		content := step.stepMarkdown(id)
		if len(content) > maxFile {
			return p, nil, fmt.Errorf("%s (%s) has %d bytes, at most %d are accepted", name, step.Title, len(content), maxFile)
		}
		p.Steps = append(p.Steps, ref)
		files[ref.File] = content
	}
	return p, files, p.Check()
}

func checkTitle(owner, title string) error {
	switch n := len([]rune(title)); {
	case n == 0:
		return fmt.Errorf("%s has no title", owner)
	case n > maxTitle:
		return fmt.Errorf("the title of %s has %d characters, at most %d are accepted", owner, n, maxTitle)
	case strings.ContainsAny(title, "\r\n"):
		return fmt.Errorf("the title of %s has several lines; it takes one", owner)
	}
	return nil
}

// maxWords bounds, in bytes, the words from the title in a file's name.
const maxWords = 48

// fileName returns a name made of a step's id and the words of its title, or "step" if the
// title has no ASCII letters or digits.
func fileName(id, title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := strings.Join(words, "-")
	if len(name) > maxWords {
		name = strings.Trim(name[:maxWords], "-")
	}
	return id + "-" + cmp.Or(name, "step") + ".md"
}

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
				missing = fmt.Errorf("%s, line %d: ${%s} has no value; give %s, or write $${%s} for the text itself", file, number, m[1], valueRemedy(m[1]), m[1])
			}
			return found
		}))
	}
	return b.String(), missing
}

func valueRemedy(name string) string {
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
	for _, s := range splitSections(prd) {
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
	for _, s := range splitSections(prd) {
		if s.isAddress() {
			if set {
				continue
			}
			s.body, set = "\n"+url+"\n\n", true
		}
		b.WriteString(s.withHeading())
	}
	if !set {
		b.WriteString("\n## Base URL\n\n" + url + "\n")
	}
	return b.String()
}
