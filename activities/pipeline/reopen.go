package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
)

// Saved is a run of a pipeline between two runs of its workflow.
type Saved struct {
	Core     *pipeline.State `json:"core"`
	Prepared Prepared        `json:"prepared"`
	Recorded int             `json:"recorded"` // number of the last event on record
	Traced   int             `json:"traced"`   // entries of the trace on record
}

// savedFormat is the format of state.json. A state of another format is not read.
const savedFormat = 1

// savedState is runs/<run>/state.json.
type savedState struct {
	Format int    `json:"format"`
	Run    string `json:"run"`
	Saved
}

// ReopenInput names an ended run of a pipeline for a new run of its workflow.
type ReopenInput struct {
	Run        string `json:"run"` // of the pipeline
	WorkflowID string `json:"workflow_id"`
}

// Reopening is a run of a pipeline that a new run of the workflow goes on with.
type Reopening struct {
	Request string `json:"request"`
	Run     string `json:"run"` // of the workflow, that ended
	Saved   Saved  `json:"saved"`
}

// ReopenPipeline loads the state in which the last run of the workflow ended.
func (a *Activities) ReopenPipeline(ctx context.Context, in ReopenInput) (Reopening, error) {
	defer activities.Beat(ctx)()
	r, err := a.reopening(ctx, in)
	if err != nil {
		return Reopening{}, err
	}
	p, err := a.Teams.PipelineByHash(ctx, a.Store, artifact.InPipeline(in.Run), r.Saved.Prepared.ConfigHash)
	if err == nil {
		err = a.check(ctx, p)
	}
	return r, err
}

// CanReopen returns an error if no new run can go on with an ended one. It changes nothing.
func (a *Activities) CanReopen(ctx context.Context, in ReopenInput) error {
	_, err := a.reopening(ctx, in)
	return err
}

func (a *Activities) reopening(ctx context.Context, in ReopenInput) (Reopening, error) {
	layout := artifact.InPipeline(in.Run)
	run, err := artifact.ReadJSON[file](ctx, a.Store, layout.File("pipeline.json"))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return Reopening{}, activities.Invalid(fmt.Errorf("there is no run %s to go on with: give a request instead of resume", in.Run))
	case err != nil:
		return Reopening{}, err
	case run.WorkflowID != in.WorkflowID:
		return Reopening{}, activities.Taken("run %s belongs to workflow %s: resume it under that ID", in.Run, run.WorkflowID)
	}
	last, err := a.lastState(ctx, layout)
	switch {
	case err != nil:
		return Reopening{}, err
	case last.Run == "":
		return Reopening{}, activities.Invalid(fmt.Errorf("run %s cannot go on: it has saved no state, as after a termination; start it again", in.Run))
	}
	if err := last.Core.Refuse(pipeline.Reopened{Run: last.Run}); err != nil {
		return Reopening{}, activities.Invalid(fmt.Errorf("run %s cannot go on: %w", in.Run, err))
	}
	return Reopening{Request: run.Request, Run: last.Run, Saved: last.Saved}, nil
}

// lastState returns the newest saved state. Its Run is empty without one.
func (a *Activities) lastState(ctx context.Context, layout artifact.Layout) (savedState, error) {
	var last savedState
	for key, err := range a.Store.List(ctx, layout.File("runs/")) {
		if err != nil {
			return savedState{}, fmt.Errorf("looking for saved states: %w", err)
		}
		if !strings.HasSuffix(key, "/state.json") {
			continue
		}
		s, err := artifact.ReadJSON[savedState](ctx, a.Store, key)
		if _, malformed := errors.AsType[*artifact.MalformedError](err); malformed {
			continue
		}
		if err != nil {
			return savedState{}, err
		}
		if s.Format == savedFormat && s.Core != nil && (last.Run == "" || s.Core.Events > last.Core.Events) {
			last = s
		}
	}
	return last, nil
}
