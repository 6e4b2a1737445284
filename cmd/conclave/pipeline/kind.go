package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"conclave/activities/attempt"
	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// Kind describes pipeline runs for the commands that take an ID.
func Kind() *runs.Kind {
	return &runs.Kind{
		Type: pipelineflow.Type, Noun: "pipeline run", List: "pipeline list", MemoID: pipelineflow.MemoPipeline, Failed: string(pipeline.Failed),
		StateKeys: [2]string{"id", "request"},
		Statuses:  []string{string(pipeline.Completed), string(pipeline.Failed), string(pipeline.MaxIterations)}, Files: artifact.InPipeline, Dirs: artifact.InPipeline("*").Root(),
		Page: "/pipelines/", Offer: live.Offer,
		OfflineNote: offlineNote,
		Running: func(ctx context.Context, conn *hall.Connection, r runs.Run) any {
			open := running(r)
			open.Status = pipeline.Status(r.Shown())
			var state acts.State
			if answered, _ := runs.QueryState(ctx, conn, r, &state); answered {
				open = completed(open, state)
			}
			return open
		},
		Watch: watch,
		Result: func(ctx context.Context, conn *hall.Connection, r runs.Run) error {
			result, err := await(ctx, conn, r)
			if err != nil {
				return runs.LeaveOpen(ctx, conn, r, running(r), err)
			}
			return printResult(ctx, conn, r, result)
		},
		Await: func(ctx context.Context, conn *hall.Connection, r runs.Run) (any, string, error) {
			result, err := await(ctx, conn, r)
			return result, string(result.Status), err
		},
		Status: status,
		Adapt:  adapt,
		Reopen: reopen,
	}
}

// reopen returns the input of a run that continues a failed or cancelled one.
func reopen(ctx context.Context, conn *hall.Connection, r runs.Run, asked drive.Request) (any, error) {
	if asked.Agent != "" {
		return nil, hall.Exitf(hall.ExitUsage, "retry pipeline run %s: it runs one step at a time; leave out --agent", r.ID)
	}
	if r.Status != string(pipeline.Failed) && r.Status != drive.Cancelled {
		return nil, hall.Exitf(hall.ExitUsage, "retry %s: it has ended (%s), and its result stands; nothing was started, `%s` prints it",
			r, r.Status, conn.CommandLine("result", r.Workflow))
	}
	input := pipelineflow.Input{Resume: true}
	if r.ID != r.Workflow {
		input.ID = r.ID
	}
	if conn.Store == nil {
		return input, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	saved := acts.Activities{Process: attempt.Process{Store: conn.Store}}
	if err := saved.CanReopen(ctx, acts.ReopenInput{Run: r.ID, WorkflowID: r.Workflow}); err != nil {
		return nil, runs.CannotReopen(conn, r, asked, err)
	}
	return input, nil
}

// adapt refuses updates that need a team, because a pipeline's run has one step at
// a time and no votes. It removes the payload of a retry.
func adapt(conn *hall.Connection, r runs.Run, u *runs.Update) error {
	switch {
	case u.Name == drive.FinishSignal:
		return hall.Exitf(hall.ExitUsage, "finish pipeline run %s: there is no vote that could be decided early; `%s` ends it, `%s` waits for its end",
			r.ID, conn.CommandLine("cancel", r.Workflow), conn.CommandLine("result --wait", r.Workflow))
	case u.Agent != "":
		return hall.Exitf(hall.ExitUsage, "%s pipeline run %s: it runs one step at a time; leave out --agent", u.Action, r.ID)
	case u.Name == drive.RetrySignal:
		u.Payload = nil
	}
	return nil
}

// running returns the result of a run that has not ended.
func running(r runs.Run) acts.Result {
	return acts.Result{ID: r.ID, Status: drive.Running, Trace: []pipeline.TraceEntry{}, History: []acts.HistoryEntry{}}
}

// completed adds the last known state to the result of a run that is open or was
// ended by Temporal.
func completed(r acts.Result, s acts.State) acts.Result {
	r.Transitions, r.Usage = s.Transitions, s.Usage
	if s.Trace != nil {
		r.Trace = s.Trace
	}
	return r
}

// await returns the result of a run. If Temporal ended the run, the result is completed
// from the last state.
func await(ctx context.Context, conn *hall.Connection, r runs.Run) (acts.Result, error) {
	result, err := runs.Await(ctx, conn, r, func(r runs.Run, status string, err *artifact.Error) acts.Result {
		result := running(r)
		result.Status, result.Error = pipeline.Status(status), err
		return result
	})
	var state acts.State
	switch {
	case err != nil:
	case runs.CutOff(result.Error) && runs.Query(ctx, conn, r.Workflow, drive.StateQuery, &state) == nil:
		result = completed(result, state)
	}
	return result, err
}

// watch follows a run to its end, prints a line for every transition, and then the result.
func watch(ctx context.Context, conn *hall.Connection, r runs.Run) error {
	out := conn.Stderr
	if conn.Automation {
		out = conn.Stdout
	}
	var last acts.State
	snapshot := func(ctx context.Context, f *runs.Follower) (progress.Snapshot, error) {
		var state acts.State
		if err := f.Query(ctx, drive.StateQuery, &state); err != nil {
			return progress.Snapshot{}, err
		}
		last = state
		s := progress.Snapshot{Holds: holds(conn.CLI, state, r.Workflow)}
		if f.Behind(state.Events) {
			var entries []pipeline.Entry
			if err := f.Query(ctx, drive.TimelineQuery, &entries); err == nil {
				s.News, s.Missed = f.News(shownEntries(inOrder(entries, state.Step)))
			}
		}
		return s, nil
	}
	result, err := runs.Follow(ctx, conn, r, progress.NewLines(out), snapshot, func(ctx context.Context) (acts.Result, error) {
		return await(ctx, conn, r)
	})
	if err == nil {
		return printResult(ctx, conn, r, result)
	}
	open := completed(running(r), last)
	if errors.Is(err, runs.ErrParked) {
		open.Status = drive.Parked
	}
	return runs.LeaveOpen(ctx, conn, r, open, err)
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

// shownEntries converts the timeline of a pipeline for display.
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

// holds returns the reasons why an open run waits for a person.
func holds(c *hall.CLI, s acts.State, workflow string) []progress.Hold {
	if s.Status != drive.Running {
		return nil
	}
	return runs.Holds(c, workflow, s.Paused, s.Parked, "runs the step again, `cancel` ends the run")
}

// exitCode returns the exit code for a result. Input that a worker refused is a usage error.
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
func printResult(ctx context.Context, conn *hall.Connection, run runs.Run, r acts.Result) (err error) {
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
	code := exitCode(r)
	if code == hall.ExitOK {
		return nil
	}
	if code == hall.ExitNoAnswer && !limited(r) {
		runs.SuggestRetry(conn, run, string(r.Status))
	}
	return &hall.ExitError{Code: code, Err: noFinal(r)}
}

// limited reports whether a run failed because it reached a limit of the run, not
// because its last step failed.
func limited(r acts.Result) bool {
	last := len(r.Trace) - 1
	ofStep := last >= 0 && r.Trace[last].Error != nil && r.Error != nil && r.Trace[last].Error.Message == r.Error.Message
	return r.Status == pipeline.Failed && r.Error != nil && !ofStep
}

// printFinal prints the whole final text on stdout, and a summary of the run on stderr.
func printFinal(ctx context.Context, conn *hall.Connection, r acts.Result) error {
	if r.Final != "" {
		if err := runs.PrintText(ctx, conn, artifact.InPipeline(r.ID), runs.Text{Content: r.Final, Truncated: r.FinalTruncated, Path: r.FinalPath}); err != nil {
			return err
		}
	}
	how := strings.ReplaceAll(string(r.Status), "_", " ")
	if r.Final == "" && exitCode(r) == hall.ExitOK {
		how += ", without a text"
	}
	conn.Infof("\n%s · %s · %s", how, progress.Plural(r.Transitions, "transition"), progress.FinalCost(r.Usage))
	if len(r.Trace) > 0 {
		conn.Infof("all steps and files: %s", runs.PullCommand(conn, r.ID, r.FinalPath, "/pipelines/"))
	}
	return nil
}

// noFinal returns the error of a run that did not complete.
func noFinal(r acts.Result) error {
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
