package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/workflows"
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

// pictureOrder orders pictures: those of the state before a step come first, those of the state after it
// last.
func (e evidence) pictureOrder() int {
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
		v := c.viewRun(r)
		shown[v.ID] = true
		if r.Status == scenario.Pass {
			p.Passed++
		}
		p.Runs = append(p.Runs, v)
	}
	for _, r := range all {
		at, _ := time.Parse(time.RFC3339, r.StartedAt) // zero if it is unknown
		p.Index = append(p.Index, indexRow{Run: r, Here: shown[runID(r)], Took: formatMilliseconds(r.DurationMS), Cost: costOfRun(r), At: at})
	}
	slices.SortStableFunc(p.Index, func(a, b indexRow) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Scenario, b.Scenario))
	})
	return executeTemplate("scenarios", p)
}

// Name returns the title of the scenario, or its slug for an older record.
func (r ScenarioRun) Name() string { return cmp.Or(r.Title, r.Scenario) }

func runID(r scenario.Run) string { return attributeID("run", r.Scenario, r.RunID) }

func formatMilliseconds(ms int64) string { return formatDuration(time.Duration(ms) * time.Millisecond) }

func costOfRun(r scenario.Run) llm.Usage {
	var sum llm.Usage
	for _, s := range r.Steps {
		sum = sum.Add(s.Cost)
	}
	return sum
}

func (c *cutter) viewRun(r ScenarioRun) runView {
	v := runView{ScenarioRun: r, ID: runID(r.Run), Took: formatMilliseconds(r.DurationMS), Cost: costOfRun(r.Run)}
	for _, s := range r.Steps {
		v.Steps = append(v.Steps, c.scenarioStep(r, s))
	}
	return v
}

func (c *cutter) scenarioStep(r ScenarioRun, s scenario.Result) scenarioStep {
	one := scenarioStep{Result: s, Part: attributeID("run", r.Scenario, r.RunID, "step", s.ID)}
	if s.Status != scenario.Skipped {
		one.Took = formatMilliseconds(s.DurationMS)
	}
	if s.Error != nil {
		one.Why = cleanText(*s.Error)
	}
	attempts := s.Attempts
	if len(attempts) == 0 {
		attempts = []scenario.Attempt{{Status: s.Status, EvidencePaths: s.EvidencePaths}}
	}
	for i, a := range attempts {
		v := attemptView{Number: i + 1, Status: a.Status, Repeated: len(attempts) > 1}
		if a.Error != nil && len(attempts) > 1 {
			v.Why = cleanText(*a.Error)
		}
		for _, name := range a.EvidencePaths {
			c.addEvidence(&v, r, name)
		}
		slices.SortStableFunc(v.Images, func(a, b evidence) int { return cmp.Compare(a.pictureOrder(), b.pictureOrder()) })
		one.Attempts = append(one.Attempts, v)
	}
	return one
}

// addEvidence adds a file. It shows a thumbnail of a picture and the beginning of a text.
func (c *cutter) addEvidence(v *attemptView, r ScenarioRun, name string) {
	one := evidence{Name: cleanLine(path.Base(name))}
	if r.Link != nil {
		one.Link = r.Link(name)
	}
	var data []byte
	if r.Evidence != nil {
		data = r.Evidence(name)
	}
	if small, ok := makeThumbnail(data); ok {
		if uri, ok := c.dataURI(small); ok {
			one.Image = uri
			v.Images = append(v.Images, one)
			return
		}
	}
	if len(data) > 0 && isText(data) {
		one.Text = c.cutText(string(data), cleanLine(name))
		v.Texts = append(v.Texts, one)
		return
	}
	v.Others = append(v.Others, one)
}

// Frame returns the frame of the report.
func (p scenarioPage) Frame() frame {
	f := frame{Title: "Scenarios: " + p.Summary(), Kind: "scenarios", Status: string(scenario.Pass), Word: string(scenario.Pass)}
	if p.Passed < len(p.Runs) {
		f.Status, f.Word = string(scenario.Fail), string(scenario.Fail)
	}
	for _, r := range p.Runs {
		f.Tabs = append(f.Tabs, tab{r.ID, cleanLine(r.Name())})
	}
	if len(p.Index) > 0 {
		f.Tabs = append(f.Tabs, tab{"index", "All runs"})
	}
	return f
}

// Summary describes the report in a few words.
func (p scenarioPage) Summary() string {
	words := cli.Plural(len(p.Runs), "run")
	if p.Passed == len(p.Runs) {
		return words + ", all passed"
	}
	return words + ", " + cli.Plural(len(p.Runs)-p.Passed, "failure")
}

// journey is a scenario's run as the data of its live page's template.
type journey struct {
	runView
	Live     *Live
	Now      time.Time
	Activity []cli.Activity
	Drawn    []template.HTML // steps
}

// Running reports whether the run is still running.
func (j *journey) Running() bool { return !j.Over() }

// Frame returns the frame of the page.
func (j *journey) Frame() frame {
	return frame{
		Live: j.Live, Title: cleanLine(j.Name()), Kind: "scenario run", ID: cleanLine(j.Scenario + "/" + j.RunID), Status: j.Shown(), Word: j.Shown(),
		Said: fmt.Sprintf("%d of %s passed", j.Passed(), cli.Plural(len(j.Run.Steps), "step")), Tabs: []tab{{"decision", "Result"}, {"steps", "Steps"}},
	}
}

// Wait describes the wait of a run that has not ended.
func (j *journey) Wait() wait {
	began, _ := time.Parse(time.RFC3339, j.StartedAt) // zero if it is unknown
	return waitFor(nil, j.Paused, "", began)
}

// Actions returns the requests that the run takes in its state.
func (j *journey) Actions() []action {
	s := steering{ID: j.Scenario + "/" + j.RunID, Running: j.Running(), Paused: j.Paused, Stop: "The run ends without a verdict. The evidence so far stays on record."}
	if j.CanRetry() {
		s.Retry = "Retry from the failed step"
	}
	if j.Running() {
		s.Say = "A message to the agent"
	}
	return j.Live.actions(s)
}

// CanRetry reports whether the run can continue from its first step that did not pass.
func (j *journey) CanRetry() bool { return j.Over() && j.Status != scenario.Pass }

// Shown returns the status, or a note that the run is paused.
func (j *journey) Shown() string {
	if j.Paused && j.Running() {
		return workflows.Paused
	}
	return string(j.Status)
}

// DrawScenario renders a live page of a run. An unchanged step is not rendered again, so its
// evidence is read once.
func DrawScenario(run ScenarioRun, live Live, now time.Time, canvas *Canvas) (Drawn, error) {
	j := &journey{runView: runView{ScenarioRun: run, ID: runID(run.Run), Took: runTime(run.Run, now), Cost: costOfRun(run.Run)}, Live: &live, Now: now, Activity: live.Running}
	p := painter{Canvas: canvas}
	for _, s := range run.Steps {
		described, _ := json.Marshal(s) // a step always has a JSON form
		step := func() any {
			c := &cutter{limit: maxLive, images: 4 << 20}
			return c.scenarioStep(run, s)
		}
		j.Drawn = append(j.Drawn, p.drawPart(attributeID("run", run.Scenario, run.RunID, "step", s.ID), "journey", "journeystep", step, string(described)))
	}
	return Drawn{
		template: "scenario", live: live,
		data: func(l *Live) any { one := *j; one.Live = l; return &one },
		parts: func() ([]Part, error) {
			parts, err := sectionsOf(j, "head", "asked:runasked", "decision:runnow", "steer")
			return append(parts, p.parts...), err
		},
	}, nil
}

func runTime(r scenario.Run, now time.Time) string {
	began, err := time.Parse(time.RFC3339, r.StartedAt)
	if r.Over() || r.Paused || err != nil {
		return formatMilliseconds(r.DurationMS)
	}
	return cli.Clock(now.Sub(began))
}
