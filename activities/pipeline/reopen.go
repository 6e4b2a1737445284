package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
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

// savedFormat is the format of state.json. States in other formats are ignored.
const savedFormat = 2

// savedState is runs/<run>/state.json: the outline of the run's state, saved with each record.
type savedState struct {
	Format int       `json:"format"`
	Run    string    `json:"run"`
	At     time.Time `json:"at"`
	Saved
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
	run, last, err := a.ended(ctx, in)
	if err != nil {
		return Reopening{}, err
	}
	p, err := a.Teams.PipelineByHash(ctx, a.Store, layout, run.ConfigHash)
	if err != nil {
		return Reopening{}, err
	}
	if last.Core == nil || !last.Core.Stands() {
		if err := refuse(in, last); err != nil {
			return Reopening{}, err
		}
		if err := a.check(ctx, p); err != nil {
			return Reopening{}, err
		}
		seal, err := a.seal(ctx, layout)
		if err != nil {
			return Reopening{}, err
		}
		if _, last, err = a.ended(ctx, in); err != nil { // an earlier run may have written a record before the seal
			return Reopening{}, err
		}
		last.Prepared.Seal = seal
	}
	r := Reopening{Run: in.Run, Request: run.Request, Saved: last.Saved, Event: pipeline.Reopened{Run: last.Run}}
	if r.Saved.Core, err = a.restore(ctx, layout, last, graphOf(p)); err != nil {
		return Reopening{}, err
	}
	earlier, err := a.earlierRuns(ctx, layout, run, last)
	if err != nil {
		return Reopening{}, err
	}
	if err := a.catchUp(ctx, layout, r.Saved.Core, &r.Event, earlier); err != nil {
		return Reopening{}, err
	}
	seal := r.Saved.Prepared.Seal
	r.Saved.Prepared = a.prepared(layout, p)
	r.Saved.Prepared.Seal = seal
	return r, nil
}

// CanReopen returns an error if an ended run cannot be continued. It changes nothing.
func (a *Activities) CanReopen(ctx context.Context, in ReopenInput) error {
	_, last, err := a.ended(ctx, in)
	if err != nil {
		return err
	}
	return refuse(in, last)
}

func refuse(in ReopenInput, last savedState) error {
	if last.Core == nil {
		return nil
	}
	if err := last.Core.Refuse(pipeline.Reopened{Run: last.Run}); err != nil {
		return activities.CannotGoOn("run "+in.Run, err)
	}
	return nil
}

// ended reads the claim of a run and its newest saved state. The state has no Core if the workflow
// ended before its first record.
func (a *Activities) ended(ctx context.Context, in ReopenInput) (file, savedState, error) {
	layout := artifact.InPipeline(in.Run)
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "run "+in.Run); err != nil {
		return file{}, savedState{}, err
	}
	run, err := activities.Owned[file](ctx, a.Store, layout.File("pipeline.json"), in.WorkflowID, "run "+in.Run, "a request")
	if err != nil {
		return run, savedState{}, err
	}
	last := savedState{Run: run.FirstRunID}
	for s, err := range activities.SavedStates[savedState](ctx, a.Store, layout) {
		if err != nil {
			return run, last, err
		}
		if s.Format == savedFormat && s.Core != nil && (last.Core == nil || s.At.After(last.At)) {
			last = s
		}
	}
	return run, last, nil
}

// earlierRuns returns the IDs of the workflow's runs, except the one that saved the last state.
func (a *Activities) earlierRuns(ctx context.Context, layout artifact.Layout, f file, last savedState) (map[string]bool, error) {
	earlier := map[string]bool{f.FirstRunID: true}
	for s, err := range activities.SavedStates[savedState](ctx, a.Store, layout) {
		if err != nil {
			return nil, err
		}
		earlier[s.Run] = true
	}
	for n := 1; n < last.Prepared.Seal; n++ {
		r, err := artifact.ReadJSON[reopening](ctx, a.Store, reopeningKey(layout, n))
		if err != nil {
			return nil, err
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

// seal creates the next reopening, or finds the one that an earlier attempt created, and returns
// its number.
func (a *Activities) seal(ctx context.Context, layout artifact.Layout) (int, error) {
	mine := reopening{Run: activity.GetInfo(ctx).WorkflowExecution.RunID}
	for n := 1; ; n++ {
		err := artifact.CreateJSON(ctx, a.Store, reopeningKey(layout, n), mine)
		if !errors.Is(err, artifact.ErrExists) {
			return n, err
		}
		other, err := artifact.ReadJSON[reopening](ctx, a.Store, reopeningKey(layout, n))
		if err != nil || other == mine {
			return n, err
		}
	}
}
