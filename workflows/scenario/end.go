package scenario

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
)

// end writes what the run came to, and completes it.
func (s *scenarioRun) end() (Result, error) {
	if err := s.flush(s.ctx); err != nil {
		if s.ctx.Err() != nil {
			return Result{}, s.cancelled()
		}
		return Result{}, err
	}
	return s.result(), nil
}

// cancelled keeps what the run had come to and ends it as cancelled. A store that
// is away does not keep it from ending.
func (s *scenarioRun) cancelled() error {
	ctx, stop := workflow.NewDisconnectedContext(s.ctx)
	defer stop()
	if s.core.Refuse(scenario.Cancel{}) == nil {
		s.note("cancelled", "", "the run was cancelled")
	}
	ms := s.worked
	if s.trial != nil {
		ms = s.trial.worked()
	}
	s.core.Step(scenario.Cancel{DurationMS: ms.Milliseconds()})
	s.carryOut(s.core.Drain())
	s.settle(ctx)
	s.carryOut(s.core.Drain())
	s.finish(s.core.Status()) // a worker that is gone says nothing
	written := workflow.NewChannel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := s.flush(ctx); err != nil {
			workflow.GetLogger(ctx).Error("the records of the cancelled run are incomplete", "error", err)
		}
		written.Close()
	})
	selector := workflow.NewSelector(ctx)
	selector.AddReceive(written, func(workflow.ReceiveChannel, bool) {})
	selector.AddFuture(workflow.NewTimerWithOptions(ctx, drive.StoreGrace, workflow.TimerOptions{Summary: "for the last record"}), func(workflow.Future) {})
	selector.Select(ctx)
	s.show()
	return s.ctx.Err()
}

// settle waits for a step that was stopped, for the sake of what it spent, but not
// for long.
func (s *scenarioRun) settle(ctx workflow.Context) {
	if s.trial == nil {
		return
	}
	timer, stop := workflow.WithCancel(ctx)
	defer stop()
	grace := workflow.NewTimerWithOptions(timer, drive.StepsGrace, workflow.TimerOptions{Summary: "for the cancelled step to end"})
	for over := false; s.trial != nil && !over; {
		selector := workflow.NewSelector(ctx)
		s.trial.hear(selector)
		selector.AddFuture(grace, func(workflow.Future) { over = true })
		selector.Select(ctx)
	}
}

// record writes what has changed, one record at a time.
func (s *scenarioRun) record() {
	if s.recording != nil || !s.stale {
		return
	}
	// What is under way is finished also when the run is cancelled: two at once
	// would write over one another.
	ctx, _ := workflow.NewDisconnectedContext(s.ctx)
	s.recording = s.startRecord(ctx)
}

// flush writes all that is left and waits for it.
func (s *scenarioRun) flush(ctx workflow.Context) error {
	if s.recording != nil {
		_ = s.wrote(ctx, s.recording) // what it did not write is written now
	}
	return s.wrote(ctx, s.startRecord(ctx))
}

func (s *scenarioRun) startRecord(ctx workflow.Context) workflow.Future {
	s.stale = false
	kept := 0
	for kept < len(s.kept) && kept < len(s.core.Results) && same(s.kept[kept], s.core.Results[kept]) {
		kept++
	}
	s.writing = acts.RecordInput{Result: s.result(), Kept: kept, Events: slices.Clone(s.events[s.recorded:])}
	s.writing.Result.Steps = slices.Clone(s.core.Results[kept:])
	return workflow.ExecuteActivity(drive.Bookkeeping(ctx, "write result.json"), acts.RecordName, s.writing)
}

// same reports whether a result is on record as it is. What a cancelled step has
// spent is learnt last.
func same(a, b scenario.Result) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Cost.ModelCalls == b.Cost.ModelCalls
}

// wrote notes how a record ended. What it did not write belongs to the next one.
func (s *scenarioRun) wrote(ctx workflow.Context, f workflow.Future) error {
	s.recording = nil
	var r acts.Recorded
	if err := f.Get(ctx, &r); err != nil {
		workflow.GetLogger(ctx).Error("writing result.json failed; the next record repeats it", "error", err)
		s.stale = true
		return err
	}
	s.recorded += len(s.writing.Events)
	s.kept = slices.Concat(s.kept[:s.writing.Kept], s.writing.Result.Steps)
	for _, steps := range [][]scenario.Result{s.kept, s.core.Results} {
		for i := range steps {
			if found := r.Evidence[steps[i].ID]; len(found) > 0 {
				steps[i].EvidencePaths = found
			}
		}
	}
	return nil
}

// result is the run as it stands.
func (s *scenarioRun) result() Result {
	r := Result{
		RunID: s.id, Scenario: s.in.Plan.Slug, Title: s.in.Plan.Title, Status: scenario.Running, StartedAt: s.begun.UTC(), Steps: []scenario.Result{},
	}
	until := workflow.Now(s.ctx)
	if s.ended != nil {
		until = *s.ended
		at := until.UTC()
		r.CompletedAt = &at
	}
	r.DurationMS = s.prepared.WorkedMS + until.Sub(s.begun).Milliseconds()
	if s.core == nil {
		return r
	}
	r.RunNumber, r.Title, r.StartedAt, r.Execution = s.prepared.RunNumber, s.prepared.Plan.Title, s.prepared.StartedAt, s.prepared.Execution
	r.Steps, r.Cost = slices.Clone(s.core.Results), s.core.Usage
	if s.ended == nil {
		return r
	}
	r.Status = s.core.Status()
	for _, step := range r.Steps {
		if step.Status != scenario.Pass {
			r.FailedStep, r.Error = &step.ID, step.Error
			break
		}
	}
	return r
}
