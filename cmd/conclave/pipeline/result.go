package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// exitCode is the exit code for a result. A refused input is a usage error, although
// a worker refused it.
func exitCode(r acts.Result) int {
	switch {
	case r.Error != nil && runs.RefusedInput(r.Error.Type) && len(r.Trace) == 0:
		return hall.ExitUsage
	case r.Status == pipeline.Completed, r.Status == pipeline.MaxIterations:
		return hall.ExitOK
	}
	return hall.ExitNoAnswer
}

// printResult prints the result of a run, and returns the exit code as an error.
func printResult(ctx context.Context, conn *hall.Connection, run runs.Run, r acts.Result) error {
	if conn.Scripted() {
		if err := conn.PrintJSON(r); err != nil {
			return err
		}
	} else if err := printFinal(ctx, conn, r); err != nil {
		return err
	}
	if run.Offline {
		conn.Infof("%s", offlineNote)
	}
	code := exitCode(r)
	if code == hall.ExitOK {
		return nil
	}
	return &hall.ExitError{Code: code, Err: noFinal(r)}
}

// printFinal prints the whole final text on stdout, and a summary of the run on stderr.
func printFinal(ctx context.Context, conn *hall.Connection, r acts.Result) error {
	if r.Final != "" {
		if err := runs.PrintText(ctx, conn, artifact.InPipeline(r.ID), r.Final, r.FinalTruncated, r.FinalPath); err != nil {
			return err
		}
	}
	how := strings.ReplaceAll(string(r.Status), "_", " ")
	if r.Final == "" && exitCode(r) == hall.ExitOK {
		how += ", without a text"
	}
	conn.Infof("\n%s · %s · %s", how, progress.Plural(r.Transitions, "transition"), progress.Cost(r.Usage))
	if len(r.Trace) > 0 {
		conn.Infof("all steps and files: %s", runs.PullCommand(conn, r.ID, r.FinalPath, "/pipelines/"))
	}
	return nil
}

// noFinal is the error of a run that did not complete.
func noFinal(r acts.Result) error {
	switch {
	case r.Status == pipeline.Cancelled:
		return fmt.Errorf("pipeline run %s was cancelled; what was on record by then can be pulled", r.ID)
	case r.Error == nil:
		return fmt.Errorf("pipeline run %s ended as %s", r.ID, r.Status)
	}
	at := ""
	if last := len(r.Trace) - 1; last >= 0 && r.Trace[last].Error != nil {
		at = " in step " + r.Trace[last].Step
	}
	return fmt.Errorf("pipeline run %s failed%s: %s", r.ID, at, cmp.Or(r.Error.Message, r.Error.Type))
}

// status prints the state of a run.
func status(ctx context.Context, conn *hall.Connection, r runs.Run) error {
	var state acts.State
	answered, err := runs.QueryState(ctx, conn, r, &state)
	if err != nil {
		return err
	}
	if !answered {
		result, err := await(ctx, conn, r)
		if err != nil {
			return err
		}
		state = closedState(r, result)
	}
	if !r.Running() {
		// Temporal ends a workflow without its knowledge.
		state.Status, state.Paused, state.Parked, state.Step = r.Status, false, nil, ""
	}
	if conn.Scripted() {
		if r.Offline {
			conn.Infof("%s", offlineNote)
		}
		return conn.PrintJSON(state)
	}
	lines := stateTable(state, r)
	for _, h := range holds(conn.CLI, state, r.Workflow) {
		lines = append(lines, "  "+h.Why, "    "+h.Release)
	}
	if r.Running() {
		lines = append(lines, "  follow it: "+conn.CommandLine("watch", r.Workflow))
	} else {
		lines = append(lines, "  its result: "+conn.CommandLine("result", r.Workflow))
	}
	if !conn.Cluster {
		lines = append(lines, "  in the browser while a stack runs: "+conn.URL(r.Workflow))
	}
	return conn.Print(text.Terminal(strings.Join(lines, "\n") + "\n"))
}

// closedState is the part of a state that follows from the result and the memo.
func closedState(r runs.Run, result acts.Result) acts.State {
	state := acts.State{ID: r.ID, Request: r.Query, Status: string(result.Status)}
	if result.Error != nil {
		state.Reason = result.Error.Message
	}
	state.Stack, state.Trace, state.Transitions, state.Usage = []string{}, result.Trace, result.Transitions, result.Usage
	return state
}

// stateTable shows the state of a run, a line for each step that ended.
func stateTable(s acts.State, r runs.Run) []string {
	parts := []string{r.ID, strings.ReplaceAll(s.Status, "_", " ")}
	if s.Paused {
		parts = append(parts, "paused")
	}
	if s.Parked != nil {
		parts = append(parts, "parked")
	}
	parts = append(parts, progress.Clock(r.Elapsed().Round(time.Second)))
	if r.Offline {
		parts = append(parts, "offline models")
	}
	lines := []string{strings.Join(parts, " · ")}
	if request := progress.Line(s.Request); request != "" {
		lines = append(lines, "  "+text.Truncate(request, runs.MaxMemoQuery))
	}
	lines = append(lines, traceTable(s.Trace)...)
	if s.Step != "" && s.Status == drive.Running {
		lines = append(lines, "  at "+s.Step)
	}
	if len(s.Stack) > 0 {
		lines = append(lines, "  waiting for a step they called: "+strings.Join(s.Stack, ", "))
	}
	if s.Reason != "" {
		lines = append(lines, "  "+progress.Line(s.Reason))
	}
	return append(lines, "  "+progress.Plural(s.Transitions, "transition")+" · "+progress.Cost(s.Usage))
}

// traceTable shows the steps that have ended.
func traceTable(trace []pipeline.Segment) []string {
	if len(trace) == 0 {
		return nil
	}
	var out strings.Builder
	for _, g := range trace {
		then := text.Truncate(progress.Line(g.Text), 60)
		switch {
		case g.Error != nil:
			then = text.Truncate(progress.Line(g.Error.Type+": "+g.Error.Message), runs.MaxFailure)
		case g.Action != pipeline.NoAction:
			then = string(g.Action) + " " + progress.Line(g.To)
		}
		number := fmt.Sprintf("%03d", g.Number)
		if g.Number == 0 { // it came to an end without a directory
			number = "–"
		}
		fmt.Fprintf(&out, "  %s\t%s\t%s\t%s tokens\t%s\n", number, progress.Line(g.Step),
			strings.ReplaceAll(string(g.Status), "_", " "), progress.Count(g.Usage.InputTokens+g.Usage.OutputTokens), then)
	}
	return strings.Split(strings.TrimRight(hall.Table(out.String()), "\n"), "\n")
}
