package scenario

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/engine/coordination"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// recentRun is a run in the status of its scenario.
type recentRun struct {
	scenario.Run
	Flaky      bool         `json:"flaky"`
	FailedStep *string      `json:"failed_step"`
	Error      *string      `json:"error"`
	Steps      []recentStep `json:"steps"`
	doing

	text          string // the status for people
	passed, steps int
}

// recentStep is an ended step of a run in the status of its scenario.
type recentStep struct {
	ID     string          `json:"id"`
	Title  string          `json:"title"`
	File   string          `json:"file"`
	Status scenario.Status `json:"status"`
	Flaky  bool            `json:"flaky"`
}

// summarizeRun summarizes a result. For an open run it includes the planned steps, and the
// duration extends to now.
func summarizeRun(r scenario.Run, plan scenario.Plan) recentRun {
	short := recentRun{Run: r, Flaky: r.Flaky(), Steps: []recentStep{}, text: statusText(r), passed: r.Passed(), steps: len(r.Steps)}
	short.RunPath, short.Paused, short.Only = acts.RunPath(r.Scenario, r.RunID), r.Paused && !r.Over(), append([]string{}, r.Only...)
	for _, s := range r.Steps {
		short.Steps = append(short.Steps, recentStep{s.ID, s.Title, s.File, s.Status, s.Flaky})
	}
	if !r.Over() {
		short.steps = max(short.steps, len(plan.All()))
		if began, err := time.Parse(time.RFC3339, r.StartedAt); err == nil && !short.Paused {
			short.DurationMS = max(short.DurationMS, time.Since(began).Milliseconds())
		}
	}
	if s, ok := r.Failed(); ok {
		short.FailedStep, short.Error = &s.ID, s.Error
	}
	return short
}

// addServerState adds the running step and its activity, or the end of a run that was cut off.
func (r *recentRun) addServerState(open *run) {
	r.setActivities(open.known.Activities)
	if open.end != nil {
		r.Status, r.text, r.Error = scenario.Fail, strings.ToLower(open.end.Type), &open.end.Message
	}
}

func (r *recentRun) setActivities(all []cli.Activity) {
	for _, a := range all {
		id, isStep := strings.CutPrefix(a.Agent, stepPrefix)
		if !isStep {
			continue
		}
		r.Step, r.now = &id, a
		if a.Kind != "" {
			r.Doing = &a.Doing
		}
	}
}

// reasonText returns the reason why a run failed, or the activity of an open run.
func (r *recentRun) reasonText(now time.Time) string {
	var why []string
	if r.FailedStep != nil {
		why = append(why, *r.FailedStep)
	}
	if r.Error != nil {
		why = append(why, *r.Error)
	}
	if len(why) == 0 && r.Step != nil {
		why = append(why, *r.Step, r.now.Timed(now))
	}
	return strings.Join(why, ": ")
}

// doing is the activity of the running step in the status of a run.
type doing struct {
	Step  *string             `json:"step"`  // ID of the running step; null if it is unknown
	Doing *coordination.Doing `json:"doing"` // its activity; null if it is unknown

	now cli.Activity
}

// PrintStatus implements runs.Reporter. Its JSON is that of the run in the status of its scenario.
func (reporter) PrintStatus(ctx context.Context, conn *cli.Connection, r runs.Run) error {
	var state acts.State
	answered, err := runs.QueryState(ctx, conn, r, &state)
	if err != nil {
		return err
	}
	if !r.Running() || !answered {
		end, err := runActions().Await(ctx, conn, r)
		if err != nil {
			return err
		}
		state.Result = end.Result
	}
	now := summarizeRun(recordOf(state.Result), scenario.Plan{Steps: state.Plan})
	now.setActivities(r.Activities)
	if conn.Scripted() {
		return runs.PrintState(conn, r, now)
	}
	result := ""
	if now.Status == scenario.Pass {
		result = "result"
	}
	return runs.PrintStatus(ctx, conn, r, statusLines(conn.CLI, state, now, r), result)
}

func statusLines(c *cli.CLI, state acts.State, now recentRun, r runs.Run) []string {
	parts := []string{r.Name(), now.text, cli.Clock(time.Duration(now.DurationMS) * time.Millisecond)}
	if r.Offline {
		parts = append(parts, "offline models")
	}
	lines := []string{strings.Join(parts, " · "), "  " + text.Truncate(cli.Line(state.Title), maxReason)}
	for _, e := range endsOf(r.Slug, state.Steps) {
		lines = append(lines, "  "+cli.Line(e.Text))
	}
	if now.Step != nil {
		lines = append(lines, "  at "+*now.Step, "    "+now.now.Timed(time.Now()))
	}
	if state.Ignored != "" && r.Running() {
		lines = append(lines, "  ignored the signal "+cli.Line(state.Ignored))
	}
	if now.Paused {
		for _, h := range runs.Holds(c, r.Name(), true, nil, "") {
			lines = append(lines, "  "+h.Why, "    "+h.Release)
		}
	}
	cost := cli.Cost(state.Cost)
	if !r.Running() {
		cost = cli.FinalCost(state.Cost)
	}
	return append(lines, fmt.Sprintf("  %d of %s passed · %s", now.passed, cli.Plural(now.steps, "step"), cost))
}

// stepPrefix is the prefix of a step's ID in the name of its activity.
const stepPrefix = "step-"

// board prints the progress of several runs, a line for each event.
type board struct {
	out io.Writer

	mu    sync.Mutex
	noted string // the last note, which is not repeated until a worker answers
}

func newBoard(c *cli.CLI) *board {
	if c.Automation {
		return &board{out: c.Stdout}
	}
	return &board{out: c.Stderr}
}

// lane is the display of one run on a board.
type lane struct {
	*board
	slug string
	log  cli.Log
}

func (b *board) newLane(slug string) *lane { return &lane{board: b, slug: slug} }

func (l *lane) Show(s cli.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = ""
	for _, e := range s.News {
		l.printLine(e.Text)
	}
	for _, line := range l.log.News(s.Activities, s.Now) {
		l.printLine(l.slug + " " + strings.TrimPrefix(line, stepPrefix))
	}
}

// Note implements cli.Display. A note that concerns several runs is printed once.
func (l *lane) Note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.noted != line {
		l.noted = line
		l.printLine(line)
	}
}

func (b *board) printLine(line string) { _, _ = fmt.Fprintln(b.out, cli.Line(line)) }

// endsOf returns an event for each step that has ended, with its warnings.
func endsOf(slug string, steps []scenario.Result) []coordination.Entry {
	var ends []coordination.Entry
	add := func(line string) { ends = append(ends, coordination.Entry{Seq: len(ends) + 1, Text: line}) }
	for _, s := range steps {
		if s.Status == scenario.Running {
			break
		}
		line := fmt.Sprintf("%s %s %s: %s", slug, s.ID, s.Title, s.Status)
		if s.Flaky {
			line += ", flaky: attempt " + strconv.Itoa(len(s.Attempts))
		}
		if s.Status != scenario.Skipped {
			line += " (" + formatDuration(s.DurationMS) + ")"
		}
		if s.Error != nil {
			line += ": " + text.Truncate(*s.Error, maxReason)
		}
		add(line)
		for _, w := range s.Warnings {
			add(fmt.Sprintf("%s %s warning: %s", slug, s.ID, w))
		}
	}
	return ends
}
