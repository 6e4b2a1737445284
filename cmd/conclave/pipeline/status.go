package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// stateOf returns the state of a run.
func stateOf(ctx context.Context, conn *hall.Connection, r runs.Run) (acts.State, error) {
	var state acts.State
	answered, err := runs.QueryState(ctx, conn, r, &state)
	if err != nil {
		return state, err
	}
	if !answered {
		result, err := await(ctx, conn, r)
		if err != nil {
			return state, err
		}
		state = closedState(r, result)
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

// status prints the state of a run.
func status(ctx context.Context, conn *hall.Connection, r runs.Run) error {
	state, err := stateOf(ctx, conn, r)
	if err != nil {
		return err
	}
	if state.Status == drive.Running {
		state.Usage = state.Usage.Add(r.Spent[state.Step])
	}
	if conn.Scripted() {
		if state.Status == drive.Running {
			state.Status = runs.Waiting(state.Paused, state.Parked)
		}
		return runs.PrintState(conn, r, liveState{state, r.Doing(state.Step)})
	}
	lines := stateTable(state, r, time.Now())
	for _, h := range holds(conn.CLI, state, r.Workflow) {
		lines = append(lines, "  "+h.Why, "    "+h.Release)
	}
	result := "result"
	if r.Status == string(pipeline.Failed) || r.Status == drive.Cancelled {
		result = ""
	}
	if spent := runs.BeforeReset(ctx, conn, r); spent != "" {
		lines = append(lines, "  "+spent)
	}
	return runs.PrintStatus(ctx, conn, r, lines, result)
}

// liveState is the state of a run with the activity of its running step.
type liveState struct {
	acts.State
	Doing *coordination.Doing `json:"doing"` // null if it is unknown
}

// closedState returns the part of the state that the result and the memo contain.
func closedState(r runs.Run, result acts.Result) acts.State {
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

// stateTable returns the state of a run as lines, one for each step that ended.
func stateTable(s acts.State, r runs.Run, now time.Time) []string {
	status := s.Status
	if status == drive.Running {
		status = runs.Waiting(s.Paused, s.Parked)
	}
	parts := []string{r.ID, strings.ReplaceAll(status, "_", " ")}
	parts = append(parts, progress.Clock(r.Elapsed().Round(time.Second)))
	if r.Offline {
		parts = append(parts, "offline models")
	}
	lines := []string{strings.Join(parts, " · ")}
	if request := progress.Line(s.Request); request != "" {
		lines = append(lines, "  "+text.Truncate(request, maxRequest))
	}
	lines = append(lines, traceTable(s.Trace)...)
	if s.Step != "" && s.Status == drive.Running {
		lines = append(lines, "  at "+s.Step)
		for _, a := range r.Activities {
			lines = append(lines, "    "+a.Named(s.Step, now))
		}
	}
	if len(s.Stack) > 0 {
		lines = append(lines, "  waiting callers: "+strings.Join(s.Stack, ", "))
	}
	if s.Ignored != "" && s.Status == drive.Running {
		lines = append(lines, "  ignored the signal "+progress.Line(s.Ignored))
	}
	if s.Reason != "" {
		lines = append(lines, "  "+progress.Line(s.Reason))
	}
	cost := progress.FinalCost(s.Usage)
	if s.Status == drive.Running {
		cost = progress.Cost(s.Usage)
	}
	return append(lines, "  "+progress.Plural(s.Transitions, "transition")+" · "+cost)
}

// traceTable returns a line for each step that ended.
func traceTable(trace []pipeline.TraceEntry) []string {
	if len(trace) == 0 {
		return nil
	}
	var out strings.Builder
	for _, g := range trace {
		then := text.Truncate(progress.Line(g.Text), 60)
		switch {
		case g.Error != nil:
			then = text.Truncate(progress.Line(g.Error.Type+": "+g.Error.Message), maxReason)
		case g.Action != pipeline.NoAction:
			then = string(g.Action) + " " + progress.Line(g.To)
		}
		number := fmt.Sprintf("%03d", g.Number)
		if g.Number == 0 { // the step ended without a directory
			number = "–"
		}
		fmt.Fprintf(&out, "  %s\t%s\t%s\t%s tokens\t%s\n", number, progress.Line(g.Step),
			strings.ReplaceAll(g.End(), "_", " "), progress.Count(g.Usage.InputTokens+g.Usage.OutputTokens), then)
	}
	return strings.Split(strings.TrimRight(hall.Table(out.String()), "\n"), "\n")
}
