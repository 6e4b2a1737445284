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

// numbered matches the number in a step's heading. The number is dropped, because ids follow
// the position.
var numbered = regexp.MustCompile(`^(?i:step\s+)?\d{1,2}(\s*[.:)]|\s+[–—-])\s+`)

// ParseMarkdown reads a scenario from one file: an optional "# title", and for each step "##
// title" with any of the parts "### Description", "### Preconditions", "### Actions" and "###
// Expected Outcome". Text outside of these parts becomes the actions, or the description if
// the step has actions. Other headings belong to the part above them.
func ParseMarkdown(text string) (Definition, error) {
	var d Definition
	all := sections(text)
	first := slices.IndexFunc(all, isStep)
	if first < 0 {
		return d, errors.New("the file has no step: a step begins with a heading of two #, such as ## Open the shop")
	}
	for _, s := range all[:first] {
		if s.level == 1 {
			d.Title = cmp.Or(d.Title, s.heading)
			d.Before += strings.TrimSpace(s.body)
		} else {
			d.Before += strings.TrimSpace(s.whole())
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

// parseDraft reads a step from its own section and those below it.
func parseDraft(own section, below []section) (draft, error) {
	d := draft{Title: numbered.ReplaceAllString(own.heading, "")}
	loose := own.body
	part := &loose
	for _, s := range below {
		if s.level == 1 {
			return d, fmt.Errorf("the heading %q comes after a step: a file contains one scenario, with a heading of two # for each step", "# "+s.heading)
		}
		if named := d.part(s.heading); named != nil {
			part = named
			*part += s.body
		} else {
			*part += "\n" + s.whole()
		}
	}
	d.place(strings.TrimSpace(loose))
	d.trim()
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

// sections splits Markdown at its headings. It ignores headings in fenced code.
func sections(markdown string) []section {
	all := []section{{}}
	fence := "" // fence of the code that a line is in; empty outside
	number := 0
	for line := range strings.Lines(normalize(markdown)) {
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

// normalize removes a byte order mark, which would hide the first heading, and
// carriage returns.
func normalize(markdown string) string {
	return strings.ReplaceAll(strings.TrimPrefix(markdown, "\ufeff"), "\r\n", "\n")
}

// fenceAfter returns the code fence that is open after a line. A fence is closed by one of
// the same kind.
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

// whole returns the section with its heading.
func (s section) whole() string {
	if s.level == 0 {
		return s.body
	}
	return strings.Repeat("#", s.level) + " " + s.heading + "\n" + s.body
}

// part returns the field for a section with this heading, or nil for other headings.
func (d *draft) part(heading string) *string {
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

// place stores the text outside of the parts.
func (d *draft) place(loose string) {
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

func (d *draft) trim() {
	for _, part := range []*string{&d.Title, &d.Description, &d.Preconditions, &d.Actions, &d.Expected} {
		*part = strings.TrimSpace(*part)
	}
}

// ParseStep reads "title: actions".
func ParseStep(line string) (draft, error) {
	title, actions, _ := strings.Cut(line, ":")
	d := draft{Title: title, Actions: actions}
	d.trim()
	if d.Title == "" || d.Actions == "" {
		return d, fmt.Errorf("the step %.80q: it takes a title and actions, such as %q", line, "Open the shop: go to the start page")
	}
	return d, nil
}

// markdown returns the file of the step.
func (d draft) markdown(id string) string {
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
		content := step.markdown(id)
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
