package pipeline

import (
	"context"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// Kind describes runs of pipelines to the commands that take an ID.
func Kind() *runs.Kind {
	return &runs.Kind{
		Type: pipelineflow.Type, Noun: "pipeline run", List: "pipeline list", MemoID: pipelineflow.MemoPipeline, Failed: string(pipeline.Failed),
		OfflineNote: offlineNote,
		Running:     func(r runs.Run) any { return running(r) },
		Watch:       watch,
		Result: func(ctx context.Context, conn *hall.Connection, r runs.Run) error {
			result, err := await(ctx, conn, r)
			return conclude(ctx, conn, r, result, err)
		},
		Await: func(ctx context.Context, conn *hall.Connection, r runs.Run) (any, string, error) {
			result, err := await(ctx, conn, r)
			return result, string(result.Status), err
		},
		Status: status,
		Adapt:  adapt,
	}
}

// adapt refuses the updates that need a team, because a run of a pipeline has one
// step at a time and no vote. A retry has no payload.
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

// running is the result of a run that has not ended.
func running(r runs.Run) pipelineflow.Result {
	return pipelineflow.Result{ID: r.ID, Status: drive.Running, Trace: []pipeline.Segment{}, History: []acts.HistoryEntry{}}
}

// await waits for the end of a run and returns its result. Of a cancelled run it is
// the result.json in the store, if that can be read.
func await(ctx context.Context, conn *hall.Connection, r runs.Run) (pipelineflow.Result, error) {
	return runs.Await(ctx, conn, r, func(r runs.Run, status string, err *artifact.Error) pipelineflow.Result {
		result := running(r)
		result.Status, result.Error = pipeline.Status(status), err
		if status != drive.Cancelled || conn.Store == nil {
			return result
		}
		ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
		defer cancel()
		stored, readErr := artifact.ReadJSON[pipelineflow.Result](ctx, conn.Store, artifact.InPipeline(r.ID).File("result.json"))
		if readErr == nil && stored.Status == result.Status {
			return stored
		}
		return result
	})
}

func conclude(ctx context.Context, conn *hall.Connection, r runs.Run, result pipelineflow.Result, err error) error {
	return runs.Conclude(ctx, conn, r, result, running(r), err, func(result pipelineflow.Result) error {
		return printResult(ctx, conn, r, result)
	})
}

// watch follows a run to its end, a line for every transition, and prints the result.
func watch(ctx context.Context, conn *hall.Connection, r runs.Run) error {
	out := conn.Stderr
	if conn.Automation {
		out = conn.Stdout
	}
	snapshot := func(ctx context.Context, f *runs.Follower) (progress.Snapshot, error) {
		var state pipelineflow.State
		if err := f.Query(ctx, drive.StateQuery, &state); err != nil {
			return progress.Snapshot{}, err
		}
		s := progress.Snapshot{Holds: holds(conn.CLI, state, r.Workflow)}
		if f.Behind(state.Events) {
			var entries []pipeline.Entry
			if err := f.Query(ctx, drive.TimelineQuery, &entries); err == nil {
				s.News, s.Missed = f.News(shownEntries(entries))
			}
		}
		return s, nil
	}
	result, err := runs.Follow(ctx, conn, r, progress.NewLines(out), snapshot, func(ctx context.Context) (pipelineflow.Result, error) {
		return await(ctx, conn, r)
	})
	return conclude(ctx, conn, r, result, err)
}

// shownEntries converts the timeline of a pipeline for display.
func shownEntries(entries []pipeline.Entry) []coordination.Entry {
	var shown []coordination.Entry
	for _, e := range entries {
		shown = append(shown, coordination.Entry{Seq: e.Seq, Text: e.Text})
	}
	return shown
}

// holds are the reasons why an open run waits for a person.
func holds(c *hall.CLI, s pipelineflow.State, workflow string) []progress.Hold {
	if s.Status != drive.Running {
		return nil
	}
	return runs.Holds(c, workflow, s.Paused, s.Parked, "runs the step again, cancel ends the run")
}
