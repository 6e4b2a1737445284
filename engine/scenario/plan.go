package scenario

import (
	"fmt"
	"regexp"
)

// maxSteps bounds the steps of a scenario: their ids have two digits.
const maxSteps = 99

// Plan is the list of a scenario's steps at the start of a run.
type Plan struct {
	Slug  string    `json:"slug"`
	Title string    `json:"title"`
	Steps []StepRef `json:"steps"`

	// OnLostTools is the policy for a step whose tools lost their state in an interruption,
	// such as a browser's pages: begin_again, the default, or tell.
	OnLostTools string `json:"on_lost_tools,omitempty"`
}

// The values of Plan.OnLostTools.
const (
	beginAgain = "begin_again" // it begins again from its opening
	Tell       = "tell"        // its agent is told and continues
)

// StepRef is one step of a plan.
type StepRef struct {
	ID    string `json:"id"` // two digits, "01" for the first
	Title string `json:"title"`
	File  string `json:"file"` // <id>-<slug>.md
}

var (
	slugForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	idForm    = regexp.MustCompile(`^(0[1-9]|[1-9][0-9])$`)
	fileForm  = regexp.MustCompile(`^(0[1-9]|[1-9][0-9])-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	runIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
)

// maxSlug bounds a slug, in bytes: it is part of file names.
const maxSlug = 64

// CheckSlug refuses a slug that cannot name a folder.
func CheckSlug(slug string) error {
	if len(slug) > maxSlug || !slugForm.MatchString(slug) {
		return fmt.Errorf("%.80q is not a slug: it takes up to %d lower-case letters and digits, in words joined by hyphens, such as sign-in", slug, maxSlug)
	}
	return nil
}

// CheckRunID refuses an id that could leave the folder of runs.
func CheckRunID(id string) error {
	if !runIDForm.MatchString(id) {
		return fmt.Errorf("%.80q is not a run id: it takes up to 64 letters, digits, _ or -, the first a letter or digit", id)
	}
	return nil
}

// Check refuses a plan that cannot run.
func (p Plan) Check() error {
	if err := CheckSlug(p.Slug); err != nil {
		return err
	}
	if n := len(p.Steps); n == 0 || n > maxSteps {
		return fmt.Errorf("scenario %s has %d steps; it takes 1 to %d", p.Slug, n, maxSteps)
	}
	if on := p.OnLostTools; on != "" && on != beginAgain && on != Tell {
		return fmt.Errorf("on_lost_tools %.20q of scenario %s: it takes %s or %s", on, p.Slug, beginAgain, Tell)
	}
	seen := map[string]bool{}
	for i, s := range p.Steps {
		switch {
		case !idForm.MatchString(s.ID):
			return fmt.Errorf("steps[%d].id %.20q of scenario %s: it takes two digits, such as 01", i, s.ID, p.Slug)
		case seen[s.ID]:
			return fmt.Errorf("steps[%d].id %s of scenario %s occurs twice", i, s.ID, p.Slug)
		case !fileForm.MatchString(s.File) || s.File[:2] != s.ID:
			return fmt.Errorf("steps[%d].file %.80q of scenario %s: it takes a name such as %s-open.md, in the folder steps", i, s.File, p.Slug, s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

// IsStepFile reports whether a file has the name of a step's.
func IsStepFile(name string) bool { return fileForm.MatchString(name) }
