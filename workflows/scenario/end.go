package scenario

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
)

// cancelled ends a cancelled run, even if the store is unavailable. The run ends as cancelled,
// unless it had a result before the cancellation.
func (s *run) cancelled() (acts.Result, error) {
	why := s.ctx.Err()
	ctx, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	if s.core == nil {
		s.memo.Set(s.ctx, map[string]any{drive.MemoStatus: string(scenario.Cancelled)})
		return acts.Result{}, why
	}
	late := s.over
	if s.core.Refuse(scenario.Cancel{}) == nil {
		s.note("cancelled", "", "the run was cancelled")
	}
	spent := s.rest
	if s.step != nil {
		spent = s.step.spent()
	}
	s.core.Step(scenario.Cancel{DurationMS: spent.Milliseconds()})
	s.endPause()
	s.carryOut(s.core.Drain())
	drive.AwaitCancelled(ctx, s.selectStep, s.reckonLost)
	s.cleanUp(ctx)
	s.finish(s.core.Status()) // ends a step whose worker is lost
	if !late {
		s.index().End(ctx, string(scenario.Cancelled), "", s.core.Usage)
	}
	written := false
	drive.FlushInTime(ctx, func(ctx workflow.Context) error {
		err := s.recorder.Flush(ctx, s)
		written = err == nil
		return err
	})
	s.show()
	result := s.result()
	if late && written {
		return result, nil
	}
	result.Status = scenario.Cancelled
	return acts.Result{}, drive.CanceledError(result.Cost, result)
}

// cleanUp runs the steps in Plan.After of a cancelled run.
func (s *run) cleanUp(ctx workflow.Context) {
	if len(s.prepared.Plan.After) == 0 {
		s.carryOut(s.core.Drain())
		return
	}
	s.ctx = ctx
	if t := s.step; t != nil { // the worker of the step is lost
		s.step = nil
		s.core.Step(scenario.Suspended{Launch: t.launch.ID})
	}
	for {
		s.carryOut(s.core.Drain())
		if s.over {
			return
		}
		if s.due && !s.recorder.Writing() {
			s.recorder.Write(ctx, s)
		}
		selector := workflow.NewSelector(ctx)
		s.selectStep(selector)
		s.recorder.Select(ctx, selector, s)
		selector.Select(ctx)
	}
}

// StartRecord starts the activity that writes the new entries. It is part of drive.Recorder's
// history.
func (s *run) StartRecord(ctx workflow.Context) workflow.Future {
	s.due = false
	kept := 0
	for kept < len(s.kept) && kept < len(s.core.Results) && same(s.kept[kept], s.core.Results[kept]) {
		kept++
	}
	s.writing = acts.RecordInput{Result: s.result(), Kept: kept, Events: slices.Clone(s.events[s.recorded:])}
	s.writing.Result.Steps = slices.Clone(s.core.Results[kept:])
	s.writing.Messages = slices.Clone(s.messages)
	return workflow.ExecuteActivity(drive.Bookkeeping(ctx, "write result.json"), registered.RecordScenario, s.writing)
}

// Recorded receives the result of the activity that StartRecord started.
func (s *run) Recorded(ctx workflow.Context, written workflow.Future) error {
	var r acts.Recorded
	if err := written.Get(ctx, &r); err != nil {
		s.due = true
		return err
	}
	s.recorded += len(s.writing.Events)
	s.messages = s.messages[len(s.writing.Messages):]
	s.kept = slices.Concat(s.kept[:s.writing.Kept], s.writing.Result.Steps)
	for _, steps := range [][]scenario.Result{s.kept, s.core.Results} {
		for i := range steps {
			if found := r.Evidence[steps[i].ID]; len(found) > 0 {
				steps[i].SetEvidence(found)
			}
		}
	}
	return nil
}

// same reports whether a result has not changed since it was recorded. A cancelled step reports its
// usage only after its end.
func same(a, b scenario.Result) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Cost.ModelCalls == b.Cost.ModelCalls
}

// endPause adds the time of a pause that has ended.
func (s *run) endPause() {
	if !s.held.IsZero() {
		s.idle, s.held = s.idle+workflow.Now(s.ctx).Sub(s.held), time.Time{}
	}
}

// worked returns the time since this execution started, without pauses.
func (s *run) worked(now time.Time) time.Duration {
	if !s.held.IsZero() {
		now = s.held
	}
	return now.Sub(s.begun) - s.idle
}

// result returns the current state of the run as its result.
func (s *run) result() acts.Result {
	r := acts.Result{
		RunID: s.id, RunPath: acts.RunPath(s.in.Plan.Slug, s.id), Scenario: s.in.Plan.Slug, Title: s.in.Plan.Title, Status: scenario.Running, StartedAt: artifact.Timestamp(s.begun), Steps: []scenario.Result{},
	}
	until := workflow.Now(s.ctx)
	if s.ended != nil {
		until = *s.ended
		at := artifact.Timestamp(until)
		r.CompletedAt = &at
	}
	r.DurationMS = s.prepared.WorkedMS + s.worked(until).Milliseconds()
	if s.core == nil {
		if s.ctx.Err() != nil {
			r.Status = scenario.Cancelled
		}
		return r
	}
	r.RunNumber, r.Title, r.StartedAt, r.Execution = s.prepared.RunNumber, s.prepared.Plan.Title, s.prepared.StartedAt, s.prepared.Execution
	r.Steps, r.Cost, r.Only = slices.Clone(s.core.Results), s.core.Usage, s.prepared.Plan.Only
	r.Paused = s.core.Paused && s.ended == nil
	if s.ended == nil {
		return r
	}
	r.Status = s.core.Status()
	for _, step := range r.Steps {
		if step.Status != scenario.Pass && step.Status != scenario.Skipped {
			r.FailedStep, r.Error = &step.ID, step.Error
			break
		}
	}
	return r
}
