package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
)

// Saved is the saved state of a run, from which a later run of its workflow continues.
type Saved struct {
	Core     *pipeline.State `json:"core"`
	Prepared Prepared        `json:"prepared"`
	Recorded int             `json:"recorded"` // number of the last event on record
	Traced   int             `json:"traced"`   // entries of the trace on record

	// SecondsLeft is the rest of the run's time limit; nil without a limit.
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
}

// lastState is the newest outline of a run's state, and the other runs of its workflow that have saved one.
type lastState struct {
	activities.SavedState[Saved]
	others map[string]bool
}

// ReopenInput identifies an ended run for a new run of its workflow.
type ReopenInput struct {
	Run        string `json:"run,omitempty"` // ID of the pipeline's run; empty for the one that the workflow has claimed
	WorkflowID string `json:"workflow_id"`
}

// Reopening is a pipeline run that a new run of its workflow continues.
type Reopening struct {
	Run     string            `json:"run"` // ID of the pipeline's run
	Request string            `json:"request"`
	Saved   Saved             `json:"saved"`
	Event   pipeline.Reopened `json:"event"`
}

// ReopenPipeline seals the record against earlier runs of the workflow and loads the state in which
// the last one ended. If the result needs no continuation, it returns the run unchanged.
func (a *Activities) ReopenPipeline(ctx context.Context, in ReopenInput) (Reopening, error) {
	defer activities.Beat(ctx)()
	if in.Run == "" {
		claimed, err := activities.ClaimedBy(ctx, a.Store, in.WorkflowID)
		if err != nil {
			return Reopening{}, err
		}
		in.Run = claimed.ID
	}
	layout := artifact.InPipeline(in.Run)
	run, last, err := a.endedRun(ctx, in)
	if err != nil {
		return Reopening{}, err
	}
	p, err := a.Teams.PipelineByHash(ctx, a.Store, layout, run.ConfigHash)
	if errors.Is(err, artifact.ErrNotFound) {
		return Reopening{}, activities.CannotGoOn("run "+in.Run, errors.New("it ended before its definition was stored; start a new one"))
	}
	if err != nil {
		return Reopening{}, err
	}
	seal := 0
	if last.Saved != nil {
		seal = last.Saved.Prepared.Seal
	}
	if last.Saved == nil || !last.Saved.Core.Stands() {
		if err := checkContinuable(in, last); err != nil {
			return Reopening{}, err
		}
		if err := a.checkTeams(ctx, p); err != nil {
			return Reopening{}, err
		}
		if seal, err = a.sealRecord(ctx, layout); err != nil {
			return Reopening{}, err
		}
		if _, last, err = a.endedRun(ctx, in); err != nil { // an earlier run may have written a record before the seal
			return Reopening{}, err
		}
	}
	r := Reopening{Run: in.Run, Request: run.Request, Event: pipeline.Reopened{Run: last.Run}}
	if r.Saved, err = a.restoreState(ctx, layout, last, graphOf(p)); err != nil {
		return Reopening{}, err
	}
	earlier, err := a.earlierRuns(ctx, layout, last, seal)
	if err != nil {
		return Reopening{}, err
	}
	if err := a.catchUp(ctx, layout, r.Saved.Core, &r.Event, earlier); err != nil {
		return Reopening{}, err
	}
	r.Saved.Prepared = a.preparedRun(layout, p)
	r.Saved.Prepared.Seal = seal
	return r, nil
}

// CanReopen returns an error if an ended run cannot be continued. It changes nothing.
func (a *Activities) CanReopen(ctx context.Context, in ReopenInput) error {
	_, last, err := a.endedRun(ctx, in)
	if err != nil {
		return err
	}
	return checkContinuable(in, last)
}

func checkContinuable(in ReopenInput, last lastState) error {
	if last.Saved == nil {
		return nil
	}
	if err := last.Saved.Core.Refuse(pipeline.Reopened{Run: last.Run}); err != nil {
		return activities.CannotGoOn("run "+in.Run, err)
	}
	return nil
}

// endedRun reads the claim of a run and its newest saved state. Nothing is saved if the workflow
// ended before its first record.
func (a *Activities) endedRun(ctx context.Context, in ReopenInput) (file, lastState, error) {
	layout := artifact.InPipeline(in.Run)
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "run "+in.Run); err != nil {
		return file{}, lastState{}, err
	}
	run, err := activities.Owned[file](ctx, a.Store, layout.File("pipeline.json"), in.WorkflowID, "run "+in.Run, "a request")
	if err != nil {
		return run, lastState{}, err
	}
	var last lastState
	last.SavedState, last.others, err = activities.LastState[Saved](ctx, a.Store, layout, run.FirstRunID)
	return run, last, err
}

// earlierRuns returns the IDs of the workflow's runs before a seal, except the one that saved the last state.
func (a *Activities) earlierRuns(ctx context.Context, layout artifact.Layout, last lastState, seal int) (map[string]bool, error) {
	earlier := maps.Clone(last.others)
	n := 0
	for r, err := range a.reopeningSeries(layout).From(ctx, 1) {
		if err != nil {
			return nil, err
		}
		if n++; n >= seal {
			break
		}
		earlier[r.Run] = true
	}
	delete(earlier, last.Run)
	return earlier, nil
}

// reopening is reopened/<NNN>.json, which names the run of the workflow that continues. Earlier
// runs must not write to the record any more.
type reopening struct {
	Run string `json:"run"`
}

func reopeningKey(layout artifact.Layout, number int) string {
	return layout.File(fmt.Sprintf("reopened/%03d.json", number))
}

func (a *Activities) reopeningSeries(layout artifact.Layout) artifact.Series[reopening] {
	return artifact.Series[reopening]{Store: a.Store, Key: func(n int) string { return reopeningKey(layout, n) }}
}

// sealRecord creates the next reopening, or finds the one that an earlier attempt created, and returns
// its number.
func (a *Activities) sealRecord(ctx context.Context, layout artifact.Layout) (int, error) {
	mine := reopening{Run: activity.GetInfo(ctx).WorkflowExecution.RunID}
	n, _, err := a.reopeningSeries(layout).Claim(ctx, 1, mine, func(_ int, other reopening) (bool, error) { return other == mine, nil })
	return n, err
}

// restoreState completes the outline of a state from the record. Without an outline it returns the state
// of a new run.
func (a *Activities) restoreState(ctx context.Context, layout artifact.Layout, last lastState, g pipeline.Graph) (Saved, error) {
	if last.Saved == nil {
		return Saved{Core: pipeline.New(g)}, nil
	}
	status, err := artifact.ReadJSON[State](ctx, a.Store, layout.File("status.json"))
	if err != nil {
		return Saved{}, err
	}
	saved := *last.Saved
	saved.Core = saved.Core.Complete(g, status.Trace[:min(saved.Traced, len(status.Trace))])
	return saved, nil
}
