package page

import (
	"cmp"
	"html/template"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/progress"
	"conclave/engine/llm"
	"conclave/engine/scenario"
)

// ScenarioRun is a run of a scenario with a function that reads its evidence and returns nil
// for a missing file. Problem is the reason why the run did not end.
type ScenarioRun struct {
	scenario.Run
	Problem  string
	Evidence func(path string) []byte
	Link     func(path string) string // returns the link from the page to a file; "" for none
}

// runView is a run as the data of a template.
type runView struct {
	ScenarioRun
	ID    string
	Took  string
	Steps []scenarioStep
	Cost  llm.Usage
}

type scenarioStep struct {
	scenario.Result
	Part     string // ID of the part of the page
	Took     string
	Why      string
	Attempts []attemptView // one attempt or several
}

type attemptView struct {
	Number   int
	Status   scenario.Status
	Why      string
	Images   []evidence
	Texts    []evidence
	Others   []evidence
	Repeated bool // the step was tried more than once
}

// evidence is a file of an attempt.
type evidence struct {
	Name, Link string
	Image      template.URL
	Text       cut
}

// place orders pictures: those of the state before a step come first, those of the state after it
// last.
func (e evidence) place() int {
	switch {
	case strings.HasPrefix(e.Name, "before"):
		return 0
	case strings.HasPrefix(e.Name, "after"):
		return 2
	}
	return 1
}

// scenarioPage is a report of runs.
type scenarioPage struct {
	Runs    []runView
	Index   []indexRow
	Passed  int
	Live    *Live
	Written time.Time
}

// indexRow is a run in the index of a directory.
type indexRow struct {
	scenario.Run
	Here bool // the page has the whole run
	Took string
	Cost llm.Usage
	At   time.Time
}

// The total size of a report's pictures, and the size of one text, in bytes.
const (
	maxPictures = 700_000
	maxLog      = 3000
)

// Scenarios renders a report of runs with an index of all runs in their directory, the
// newest first.
func Scenarios(runs []ScenarioRun, all []scenario.Run, now time.Time) ([]byte, error) {
	c := &cutter{limit: maxLog, images: maxPictures}
	p := scenarioPage{Written: now}
	shown := map[string]bool{}
	for _, r := range runs {
		v := c.run(r)
		shown[v.ID] = true
		if r.Status == scenario.Pass {
			p.Passed++
		}
		p.Runs = append(p.Runs, v)
	}
	for _, r := range all {
		at, _ := time.Parse(time.RFC3339, r.StartedAt) // zero if it is unknown
		p.Index = append(p.Index, indexRow{Run: r, Here: shown[runID(r)], Took: milliseconds(r.DurationMS), Cost: costOfRun(r), At: at})
	}
	slices.SortStableFunc(p.Index, func(a, b indexRow) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Scenario, b.Scenario))
	})
	return execute("scenarios", p)
}

// Name returns the title of the scenario, or its slug for an older record.
func (r ScenarioRun) Name() string { return cmp.Or(r.Title, r.Scenario) }

func runID(r scenario.Run) string { return slug("run", r.Scenario, r.RunID) }

func milliseconds(ms int64) string { return seconds(time.Duration(ms) * time.Millisecond) }

func costOfRun(r scenario.Run) llm.Usage {
	var sum llm.Usage
	for _, s := range r.Steps {
		sum = sum.Add(s.Cost)
	}
	return sum
}

func (c *cutter) run(r ScenarioRun) runView {
	v := runView{ScenarioRun: r, ID: runID(r.Run), Took: milliseconds(r.DurationMS), Cost: costOfRun(r.Run)}
	for _, s := range r.Steps {
		v.Steps = append(v.Steps, c.scenarioStep(r, s))
	}
	return v
}

func (c *cutter) scenarioStep(r ScenarioRun, s scenario.Result) scenarioStep {
	one := scenarioStep{Result: s, Part: slug("run", r.Scenario, r.RunID, "step", s.ID)}
	if s.Status != scenario.Skipped {
		one.Took = milliseconds(s.DurationMS)
	}
	if s.Error != nil {
		one.Why = clean(*s.Error)
	}
	attempts := s.Attempts
	if len(attempts) == 0 {
		attempts = []scenario.Attempt{{Status: s.Status, EvidencePaths: s.EvidencePaths}}
	}
	for i, a := range attempts {
		v := attemptView{Number: i + 1, Status: a.Status, Repeated: len(attempts) > 1}
		if a.Error != nil && len(attempts) > 1 {
			v.Why = clean(*a.Error)
		}
		for _, name := range a.EvidencePaths {
			c.addEvidence(&v, r, name)
		}
		slices.SortStableFunc(v.Images, func(a, b evidence) int { return cmp.Compare(a.place(), b.place()) })
		one.Attempts = append(one.Attempts, v)
	}
	return one
}

// addEvidence adds a file. It shows a thumbnail of a picture and the beginning of a text.
func (c *cutter) addEvidence(v *attemptView, r ScenarioRun, name string) {
	one := evidence{Name: line(path.Base(name))}
	if r.Link != nil {
		one.Link = r.Link(name)
	}
	var data []byte
	if r.Evidence != nil {
		data = r.Evidence(name)
	}
	if small, ok := thumbnail(data); ok {
		if uri, ok := c.dataURI(small); ok {
			one.Image = uri
			v.Images = append(v.Images, one)
			return
		}
	}
	if len(data) > 0 && isText(data) {
		one.Text = c.cut(string(data), line(name))
		v.Texts = append(v.Texts, one)
		return
	}
	v.Others = append(v.Others, one)
}

// Summary describes the report in a few words.
func (p scenarioPage) Summary() string {
	words := progress.Plural(len(p.Runs), "run")
	if p.Passed == len(p.Runs) {
		return words + ", all passed"
	}
	return words + ", " + progress.Plural(len(p.Runs)-p.Passed, "failure")
}
