package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// maxSteps bounds the steps of a scenario, whose ids have two digits.
const maxSteps = 99

// Plan is the definition of a run's steps at its start.
type Plan struct {
	Slug  string    `json:"slug"`
	Title string    `json:"title"`
	Steps []StepRef `json:"steps"`

	// Before lists the steps to run before Steps. After lists those to run after them, even
	// if a step failed. Both run again when the run is retried.
	Before []StepRef `json:"before,omitempty"`
	After  []StepRef `json:"after,omitempty"`

	// Only has the ids of the Steps to run; empty for all.
	Only []string `json:"only,omitempty"`

	// Limits bound the run from its start, or from its retry, to the end of Steps.
	Limits Limits `json:"limits,omitzero"`

	// RequireEvidence makes a step end with error if it passes without evidence.
	RequireEvidence bool `json:"require_evidence,omitempty"`

	// Browser is the lifetime of the agent's MCP servers: BrowserStep, the default, or BrowserRun.
	Browser string `json:"browser,omitempty"`

	// OnLostTools is the policy for a step whose tools lost their state in an interruption,
	// such as a browser's pages: begin_again, the default, or tell.
	OnLostTools string `json:"on_lost_tools,omitempty"`
}

// The values of Plan.OnLostTools.
const (
	beginAgain = "begin_again" // it begins again from its opening
	Tell       = "tell"        // its agent is told and continues
)

// The values of Plan.Browser.
const (
	BrowserStep = "step" // each step starts its own
	BrowserRun  = "run"  // the steps of a run share them
)

// StepRef is one step of a plan.
type StepRef struct {
	ID     string `json:"id"` // two digits, "01" for the first
	Title  string `json:"title"`
	File   string `json:"file"` // file name: <id>-<slug>.md
	Limits Limits `json:"limits,omitzero" yaml:"limits,omitempty"`
}

// Part is the part of a plan to which a step belongs; it is empty for Plan.Steps.
type Part string

// The parts other than Plan.Steps.
const (
	PartBefore Part = "before"
	PartAfter  Part = "after"
)

// All returns the steps of all parts in the order in which they run.
func (p Plan) All() []StepRef { return slices.Concat(p.Before, p.Steps, p.After) }

func (p Plan) partAt(i int) Part {
	switch {
	case i < len(p.Before):
		return PartBefore
	case i < len(p.Before)+len(p.Steps):
		return ""
	}
	return PartAfter
}

// Selects reports whether the run includes a step of Plan.Steps.
func (p Plan) Selects(id string) bool { return len(p.Only) == 0 || slices.Contains(p.Only, id) }

var (
	slugForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	idForm    = regexp.MustCompile(`^(0[1-9]|[1-9][0-9])$`)
	fileForm  = regexp.MustCompile(`^(0[1-9]|[1-9][0-9])-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	runIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
)

// maxSlug bounds a slug, in bytes, because file names contain it.
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
	if n := len(p.All()); len(p.Steps) == 0 || n > maxSteps {
		return fmt.Errorf("scenario %s has %d steps; it takes 1 to %d, before and after included", p.Slug, n, maxSteps)
	}
	if on := p.OnLostTools; on != "" && on != beginAgain && on != Tell {
		return fmt.Errorf("on_lost_tools %.20q of scenario %s: it takes %s or %s", on, p.Slug, beginAgain, Tell)
	}
	if b := p.Browser; b != "" && b != BrowserStep && b != BrowserRun {
		return fmt.Errorf("browser %.20q of scenario %s: it takes %s or %s", b, p.Slug, BrowserStep, BrowserRun)
	}
	if err := p.Limits.checkLimits("limits"); err != nil {
		return fmt.Errorf("scenario %s: %w", p.Slug, err)
	}
	return errors.Join(p.checkSteps(), p.checkOnly())
}

// checkSteps refuses steps that lack an id or a file, or that share one with another step.
func (p Plan) checkSteps() error {
	seen := map[string]bool{}
	for _, list := range []struct {
		name  string
		steps []StepRef
	}{{"before", p.Before}, {"steps", p.Steps}, {"after", p.After}} {
		for i, s := range list.steps {
			at := fmt.Sprintf("%s[%d]", list.name, i)
			switch {
			case !idForm.MatchString(s.ID):
				return fmt.Errorf("%s.id %.20q of scenario %s: it takes two digits, from 01 to 99", at, s.ID, p.Slug)
			case seen[s.ID]:
				return fmt.Errorf("%s.id %s of scenario %s occurs twice; before, steps and after share their ids", at, s.ID, p.Slug)
			case !fileForm.MatchString(s.File) || s.File[:2] != s.ID:
				return fmt.Errorf("%s.file %.80q of scenario %s: it takes a name such as %s-open.md, in the folder steps", at, s.File, p.Slug, s.ID)
			}
			if err := s.Limits.checkLimits(at + ".limits"); err != nil {
				return fmt.Errorf("scenario %s: %w", p.Slug, err)
			}
			seen[s.ID] = true
		}
	}
	return nil
}

func (p Plan) checkOnly() error {
	for _, id := range p.Only {
		if !slices.ContainsFunc(p.Steps, func(s StepRef) bool { return s.ID == id }) {
			ids := text.Each(p.Steps, func(s StepRef) string { return s.ID })
			return fmt.Errorf("scenario %s has no step %.20q to run alone; its steps are %s", p.Slug, id, strings.Join(ids, ", "))
		}
	}
	return nil
}

// IsStepFile reports whether a file is named like a step's file.
func IsStepFile(name string) bool { return fileForm.MatchString(name) }

// Limits bound a step or a run. A zero field sets no limit.
type Limits struct {
	Seconds    int     `json:"seconds,omitempty" yaml:"seconds,omitempty"` // seconds of work, pauses excluded
	ModelCalls int     `json:"model_calls,omitempty" yaml:"model_calls,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty" yaml:"cost_usd,omitempty"`
}

func (l Limits) checkLimits(at string) error {
	if l.Seconds < 0 || l.ModelCalls < 0 || l.CostUSD < 0 || math.IsNaN(l.CostUSD) || math.IsInf(l.CostUSD, 0) {
		return fmt.Errorf("%s has a negative or infinite limit; it takes seconds, model_calls and cost_usd above 0, or null for none", at)
	}
	return nil
}

// spent is the used part of limits.
type spent struct {
	milliseconds int64
	usage        llm.Usage
}

func (l Limits) remainingLimits(s spent) (rest Limits, exhausted string) {
	if l.Seconds > 0 {
		if rest.Seconds = l.Seconds - int(s.milliseconds/1000); rest.Seconds <= 0 {
			return rest, fmt.Sprintf("limits.seconds of %d", l.Seconds)
		}
	}
	if l.ModelCalls > 0 {
		if rest.ModelCalls = l.ModelCalls - int(s.usage.ModelCalls); rest.ModelCalls <= 0 {
			return rest, fmt.Sprintf("limits.model_calls of %d", l.ModelCalls)
		}
	}
	if l.CostUSD > 0 {
		if rest.CostUSD = l.CostUSD - s.usage.AtLeastUSD(); rest.CostUSD <= 0 {
			return rest, fmt.Sprintf("limits.cost_usd of %g", l.CostUSD)
		}
	}
	return rest, ""
}

// withinRun returns the lower of a step's limits and the run's remaining limits, and the names
// of those that come from the run.
func (l Limits) withinRun(run Limits) (limits Limits, tightened []string) {
	limits = l
	if run.Seconds > 0 && Bound(l.Seconds, run.Seconds) == run.Seconds {
		limits.Seconds, tightened = run.Seconds, append(tightened, "seconds")
	}
	if run.ModelCalls > 0 && Bound(l.ModelCalls, run.ModelCalls) == run.ModelCalls {
		limits.ModelCalls, tightened = run.ModelCalls, append(tightened, "model_calls")
	}
	if run.CostUSD > 0 && (l.CostUSD == 0 || run.CostUSD < l.CostUSD) {
		limits.CostUSD, tightened = run.CostUSD, append(tightened, "cost_usd")
	}
	return limits, tightened
}

// Bound returns the lower of two limits; 0 is no limit.
func Bound(a, b int) int {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// Rest returns a note for the error of a launch that had only the run's remaining limits. It
// is empty if the step's own limits were lower.
func (l Launch) Rest() string {
	if len(l.Tightened) == 0 {
		return ""
	}
	return " (the step had the rest of the run's limits: " + strings.Join(l.Tightened, ", ") + ")"
}
