package start

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"conclave/activities/attempt"
	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/cli"
	runs "conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
)

// PipelineKind describes pipeline runs for the commands that take an ID.
func PipelineKind() *runs.Kind {
	return &runs.Kind{
		Kind: record.Pipelines, List: "pipeline list", MemoID: pipelineflow.MemoPipeline, Alone: "it runs one step at a time", StateKeys: [2]string{"id", "request"}, UsageKey: "usage",
		Statuses:    []string{string(pipeline.Completed), string(pipeline.Failed), string(pipeline.MaxIterations)},
		OfflineNote: offlineNote, Actions: pipelineActions(),
	}
}

// pipelineReporter reads and prints pipeline runs.
type pipelineReporter struct{}

func pipelineActions() runs.Reported[acts.Result, acts.State] {
	return runs.Reported[acts.Result, acts.State]{Reporter: pipelineReporter{}}
}

// AwaitPipeline waits for the end of a run and returns its result. If Temporal ended the run, the result
// is completed from the last state.
func AwaitPipeline(ctx context.Context, conn *cli.Connection, run runs.Run) (acts.Result, error) {
	return pipelineActions().Await(ctx, conn, run)
}

// ReopenInput implements runs.Requests for a failed or cancelled run.
func (pipelineReporter) ReopenInput(ctx context.Context, conn *cli.Connection, r runs.Run, asked workflows.Request) (any, error) {
	if r.Status != string(pipeline.Failed) && r.Status != workflows.Cancelled {
		return nil, cli.Exitf(cli.ExitUsage, "retry %s: it has ended (%s), and its result stands; nothing was started, `%s` prints it",
			r, r.Status, conn.CommandLine("result", r.Name()))
	}
	input := pipelineflow.Input{Resume: true}
	if r.ID != r.Workflow {
		input.ID = r.ID
	}
	if conn.Store == nil {
		return input, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	saved := acts.Activities{Process: attempt.Process{Store: conn.Store}}
	if err := saved.CanReopen(ctx, acts.ReopenInput{Run: r.ID, WorkflowID: r.Workflow}); err != nil {
		return nil, runs.CannotReopen(conn, r, asked, err)
	}
	return input, nil
}

// AdaptUpdate implements runs.Requests: a retry has no payload.
func (pipelineReporter) AdaptUpdate(_ *cli.Connection, _ runs.Run, u *runs.Update) error {
	if u.Name == workflows.RetrySignal {
		u.Payload = nil
	}
	return nil
}

func (pipelineReporter) NewResult(r runs.Run, status string, why *artifact.Error) acts.Result {
	return acts.Result{ID: r.ID, Status: pipeline.Status(status), Error: why, Trace: []pipeline.TraceEntry{}, History: []acts.HistoryEntry{}}
}

func (pipelineReporter) CompleteResult(_ runs.Run, r acts.Result, s acts.State) acts.Result {
	r.Transitions, r.Usage = s.Transitions, s.Usage
	if s.Trace != nil {
		r.Trace = s.Trace
	}
	return r
}

// NewDisplay implements runs.Reporter: a line for every transition.
func (pipelineReporter) NewDisplay(conn *cli.Connection, _ runs.Run) cli.Display {
	if conn.Automation {
		return cli.NewLines(conn.Stdout)
	}
	return cli.NewLines(conn.Stderr)
}

func (pipelineReporter) NewView(conn *cli.Connection, r runs.Run) runs.View[acts.State] {
	return func(ctx context.Context, f *runs.Follower, state acts.State) cli.Snapshot {
		s := cli.Snapshot{Holds: pipelineHolds(conn.CLI, state, r.Name())}
		if f.Behind(state.Events) {
			var entries []pipeline.Entry
			if err := f.Query(ctx, workflows.TimelineQuery, &entries); err == nil {
				s.News, s.Missed = f.News(shownEntries(inOrder(entries, state.Step)))
			}
		}
		return s
	}
}

// inOrder puts the end of a run after the end of the step that it cancelled, and leaves it out while
// that step, the current one, still runs.
func inOrder(entries []pipeline.Entry, step string) []pipeline.Entry {
	for i := 1; i < len(entries); i++ {
		if end, last := entries[i-1], entries[i]; end.Kind == pipeline.EntryEnded && last.Kind == pipeline.EntryCancelled {
			end.Seq, last.Seq = last.Seq, end.Seq
			entries[i-1], entries[i] = last, end
		}
	}
	if last := len(entries) - 1; step != "" && last >= 0 && entries[last].Kind == pipeline.EntryEnded {
		return entries[:last]
	}
	return entries
}

func shownEntries(entries []pipeline.Entry) []coordination.Entry {
	var shown []coordination.Entry
	for _, e := range entries {
		kind := ""
		switch e.Kind {
		case pipeline.EntryPaused:
			kind = coordination.EntryPaused
		case pipeline.EntryParked:
			kind = coordination.EntryFailed
		}
		shown = append(shown, coordination.Entry{Seq: e.Seq, Kind: kind, Text: e.Text, Time: e.Time})
	}
	return shown
}

func pipelineHolds(c *cli.CLI, s acts.State, workflow string) []cli.Hold {
	if s.Status != workflows.Running {
		return nil
	}
	return runs.Holds(c, workflow, s.Paused, s.Parked, "runs the step again, `cancel` ends the run")
}

// pipelineExitCode returns the exit code for a result. Input that a worker refused is a usage error.
func pipelineExitCode(r acts.Result) int {
	switch {
	case r.Error != nil && runs.RefusedInput(r.Error.Type) && len(r.Trace) == 0:
		return cli.ExitUsage
	case r.Status == pipeline.Completed, r.Status == pipeline.MaxIterations:
		return cli.ExitOK
	}
	return cli.ExitNoAnswer
}

func (pipelineReporter) PrintResult(ctx context.Context, conn *cli.Connection, run runs.Run, r acts.Result) (err error) {
	if conn.Scripted() {
		err = conn.PrintJSON(r)
	} else {
		err = printFinal(ctx, conn, r)
	}
	if err != nil {
		return err
	}
	if run.Offline {
		conn.Infof("%s", offlineNote)
	}
	code := pipelineExitCode(r)
	if code == cli.ExitOK {
		return nil
	}
	if code == cli.ExitNoAnswer && !hitLimit(r) {
		runs.SuggestRetry(conn, run, string(r.Status))
	}
	return &cli.ExitError{Code: code, Err: noFinalText(r)}
}

// hitLimit reports whether a run failed because it reached a limit of the run, not
// because its last step failed.
func hitLimit(r acts.Result) bool {
	last := len(r.Trace) - 1
	ofStep := last >= 0 && r.Trace[last].Error != nil && r.Error != nil && r.Trace[last].Error.Message == r.Error.Message
	return r.Status == pipeline.Failed && r.Error != nil && !ofStep
}

// printFinal prints the whole final text on stdout, and a summary of the run on stderr.
func printFinal(ctx context.Context, conn *cli.Connection, r acts.Result) error {
	if r.Final != "" {
		if err := runs.PrintText(ctx, conn, artifact.InPipeline(r.ID), runs.Text{Content: r.Final, Truncated: r.FinalTruncated, Path: r.FinalPath}); err != nil {
			return err
		}
	}
	how := strings.ReplaceAll(string(r.Status), "_", " ")
	if r.Final == "" && pipelineExitCode(r) == cli.ExitOK {
		how += ", without a text"
	}
	conn.Summarize(fmt.Sprintf("%s · %s · %s", how, cli.Plural(r.Transitions, "transition"), cli.FinalCost(r.Usage)))
	if len(r.Trace) > 0 {
		conn.Infof("all steps and files: %s", runs.PullCommand(conn, r.ID, r.FinalPath, "/pipelines/"))
	}
	return nil
}

func noFinalText(r acts.Result) error {
	switch {
	case r.Status == pipeline.Cancelled:
		return fmt.Errorf("pipeline run %s was cancelled; the files recorded until then can be pulled", r.ID)
	case r.Error == nil:
		return fmt.Errorf("pipeline run %s ended as %s", r.ID, r.Status)
	}
	at := ""
	if last := len(r.Trace) - 1; last >= 0 && r.Trace[last].Error != nil {
		at = " in step " + r.Trace[last].Step
	}
	return fmt.Errorf("pipeline run %s failed%s: %s", r.ID, at, cmp.Or(r.Error.Message, r.Error.Type))
}

func readPipelineState(ctx context.Context, conn *cli.Connection, r runs.Run) (acts.State, error) {
	var state acts.State
	answered, err := runs.QueryState(ctx, conn, r, &state)
	if err != nil {
		return state, err
	}
	if !answered {
		result, err := AwaitPipeline(ctx, conn, r)
		if err != nil {
			return state, err
		}
		state = closedPipeline(r, result)
	}
	if !r.Running() {
		// A workflow ended by Temporal has not updated its state.
		state.Status, state.Paused, state.Parked, state.Step = r.Status, false, nil, ""
		if why := runs.EndError(ctx, conn, r); why != nil {
			state.Reason = why.Message
		}
	}
	return state, nil
}

func (pipelineReporter) PrintStatus(ctx context.Context, conn *cli.Connection, r runs.Run) error {
	state, err := readPipelineState(ctx, conn, r)
	if err != nil {
		return err
	}
	if state.Status == workflows.Running {
		state.Usage = state.Usage.Add(r.Spent[state.Step])
	}
	if conn.Scripted() {
		if state.Status == workflows.Running {
			state.Status = waitingStatus(state, r)
		}
		return runs.PrintState(conn, r, liveState{state, r.Doing(state.Step)})
	}
	lines := stateTable(state, r, time.Now())
	for _, h := range append(runs.QuestionHolds(conn.CLI, r), pipelineHolds(conn.CLI, state, r.Name())...) {
		lines = append(lines, "  "+h.Why, "    "+h.Release)
	}
	result := "result"
	if r.Status == string(pipeline.Failed) || r.Status == workflows.Cancelled {
		result = ""
	}
	if spent := runs.BeforeReset(ctx, conn, r); spent != "" {
		lines = append(lines, "  "+spent)
	}
	return runs.PrintStatus(ctx, conn, r, lines, result)
}

// waitingStatus returns the status of an open run, which may wait for a person.
func waitingStatus(s acts.State, r runs.Run) string {
	status := runs.Waiting(s.Paused, s.Parked)
	if status == workflows.Running && len(r.Questions) > 0 {
		return workflows.Waiting
	}
	return status
}

// liveState is the state of a run with the activity of its running step.
type liveState struct {
	acts.State
	Doing *coordination.Doing `json:"doing"` // null if it is unknown
}

// closedPipeline returns the part of the state that the result and the memo contain.
func closedPipeline(r runs.Run, result acts.Result) acts.State {
	state := acts.State{ID: r.ID, Request: r.Query, Status: string(result.Status)}
	if result.Error != nil {
		state.Reason = result.Error.Message
	}
	state.Stack, state.Trace, state.Transitions, state.Usage = []string{}, result.Trace, result.Transitions, result.Usage
	return state
}

// The lengths, in bytes, to which a table truncates a request and a failure.
const (
	maxRequest = 200
	maxReason  = 160
)

func stateTable(s acts.State, r runs.Run, now time.Time) []string {
	status := s.Status
	if status == workflows.Running {
		status = waitingStatus(s, r)
	}
	parts := []string{r.ID, strings.ReplaceAll(status, "_", " ")}
	parts = append(parts, cli.Clock(r.Elapsed().Round(time.Second)))
	if r.Offline {
		parts = append(parts, "offline models")
	}
	lines := []string{strings.Join(parts, " · ")}
	if request := cli.Line(s.Request); request != "" {
		lines = append(lines, "  "+text.Truncate(request, maxRequest))
	}
	lines = append(lines, traceTable(s.Trace)...)
	if s.Step != "" && s.Status == workflows.Running {
		lines = append(lines, "  at "+s.Step)
		for _, a := range r.Activities {
			lines = append(lines, "    "+a.Named(s.Step, now))
		}
	}
	lines = append(lines, branchLines(s)...)
	if len(s.Stack) > 0 {
		lines = append(lines, "  waiting callers: "+strings.Join(s.Stack, ", "))
	}
	if s.Ignored != "" && s.Status == workflows.Running {
		lines = append(lines, "  ignored the signal "+cli.Line(s.Ignored))
	}
	if s.Reason != "" {
		lines = append(lines, "  "+cli.Line(s.Reason))
	}
	cost := cli.FinalCost(s.Usage)
	if s.Status == workflows.Running {
		cost = cli.Cost(s.Usage)
	}
	return append(lines, "  "+cli.Plural(s.Transitions, "transition")+" · "+cost)
}

// shownBranches is the number of open branches in a status; the others are counted.
const shownBranches = 12

func branchLines(s acts.State) []string {
	var lines []string
	for i, b := range s.Branches {
		if i == shownBranches {
			return append(lines, "    "+fmt.Sprintf("and %d more", len(s.Branches)-i))
		}
		line := "    " + cli.Line(b.Branch) + " at " + cli.Line(b.Step)
		if len(b.Stack) > 0 {
			line += ", waiting callers: " + strings.Join(b.Stack, ", ")
		}
		if b.Parked != nil {
			line += ": " + text.Truncate(cli.Line(*b.Parked), maxReason)
		}
		lines = append(lines, line)
	}
	return lines
}

func traceTable(trace []pipeline.TraceEntry) []string {
	if len(trace) == 0 {
		return nil
	}
	var out strings.Builder
	for _, g := range trace {
		then := text.Truncate(cli.Line(g.Text), 60)
		switch {
		case g.Error != nil:
			then = text.Truncate(cli.Line(g.Error.Type+": "+g.Error.Message), maxReason)
		case g.Action != pipeline.NoAction:
			then = string(g.Action) + " " + cli.Line(g.To)
		}
		number := fmt.Sprintf("%03d", g.Number)
		if g.Number == 0 { // the step ended without a directory
			number = "–"
		}
		fmt.Fprintf(&out, "  %s\t%s\t%s\t%s tokens\t%s\n", number, cli.Line(g.Place()),
			strings.ReplaceAll(g.End(), "_", " "), cli.Count(g.Usage.InputTokens+g.Usage.OutputTokens), then)
	}
	return strings.Split(strings.TrimRight(cli.Table(out.String()), "\n"), "\n")
}
