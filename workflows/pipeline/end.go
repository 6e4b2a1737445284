package pipeline

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
)

// end writes what the run came to, and completes it.
func (p *pipelineRun) end() (Result, error) {
	if err := p.flush(p.ctx, true); err != nil {
		return Result{}, p.orCancelled(err)
	}
	result, err := p.conclude(p.ctx)
	if err != nil {
		return Result{}, p.orCancelled(err)
	}
	return result, nil
}

// conclude has result.json written.
func (p *pipelineRun) conclude(ctx workflow.Context) (Result, error) {
	result := Result{ID: p.id, Status: p.outcome.Status, Trace: p.core.Trace, Transitions: p.core.Transitions, Usage: p.core.Usage}
	if p.outcome.Reason != "" {
		result.Error = &artifact.Error{Type: string(p.outcome.Status), Message: p.outcome.Reason}
	}
	if last := len(result.Trace) - 1; last >= 0 && result.Trace[last].Error != nil && p.outcome.Status == pipeline.Failed {
		result.Error = &artifact.Error{Type: result.Trace[last].Error.Type, Message: result.Trace[last].Error.Message}
	}
	input := acts.ConcludeInput{Run: p.id, Final: p.outcome.Final, History: p.core.History, Result: result}
	ctx = drive.Bookkeeping(ctx, "write result.json")
	err := workflow.ExecuteActivity(ctx, acts.ConcludeName, input).Get(ctx, &result)
	return result, err
}

// orCancelled ends a run that was cancelled while it was ending.
func (p *pipelineRun) orCancelled(err error) error {
	if p.ctx.Err() != nil {
		return p.cancelled()
	}
	return err
}

// cancelled keeps what the run had come to and ends it as cancelled. A store that
// is away does not keep it from ending.
func (p *pipelineRun) cancelled() error {
	ctx, stop := workflow.NewDisconnectedContext(p.ctx)
	defer stop()
	if p.core == nil {
		return p.ctx.Err()
	}
	p.core.Step(pipeline.Cancel{})
	p.carryOut(p.core.Drain())
	p.settle(ctx)
	if p.outcome == nil { // it had ended already
		p.outcome = p.core.Outcome
	}
	written := workflow.NewChannel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := p.flush(ctx, true)
		if err == nil {
			_, err = p.conclude(ctx)
		}
		if err != nil {
			workflow.GetLogger(ctx).Error("the records of the cancelled run are incomplete", "error", err)
		}
		written.Close()
	})
	selector := workflow.NewSelector(ctx)
	selector.AddReceive(written, func(workflow.ReceiveChannel, bool) {})
	selector.AddFuture(workflow.NewTimerWithOptions(ctx, drive.StoreGrace, workflow.TimerOptions{Summary: "for the last records"}), func(workflow.Future) {})
	selector.Select(ctx)
	return p.ctx.Err()
}

// settle waits for a segment that was stopped, for the sake of what it spent, but
// not for long.
func (p *pipelineRun) settle(ctx workflow.Context) {
	timer, stop := workflow.WithCancel(ctx)
	defer stop()
	if p.segment == nil {
		return
	}
	grace := workflow.NewTimerWithOptions(timer, drive.StepsGrace, workflow.TimerOptions{Summary: "for the cancelled step to end"})
	for over := false; p.segment != nil && !over; {
		selector := workflow.NewSelector(ctx)
		p.segment.hear(selector)
		selector.AddFuture(grace, func(workflow.Future) { over = true })
		selector.Select(ctx)
	}
}

// record writes what has happened, one record at a time: between segments, and at
// once what a person said, for which the running step looks in the store.
func (p *pipelineRun) record() {
	if p.recording != nil || len(p.messages) == 0 && p.recorded == p.core.Events {
		return
	}
	// What is under way is finished also when the run is cancelled: two at once
	// would write over one another.
	ctx, _ := workflow.NewDisconnectedContext(p.ctx)
	p.recording = p.startRecord(ctx, false)
}

// flush writes all that is left and waits for it.
func (p *pipelineRun) flush(ctx workflow.Context, over bool) error {
	if p.recording != nil {
		p.wrote(p.recording.Get(ctx, nil))
	}
	err := p.startRecord(ctx, over).Get(ctx, nil)
	if err == nil {
		p.wrote(nil)
	}
	return err
}

func (p *pipelineRun) startRecord(ctx workflow.Context, over bool) workflow.Future {
	p.writing = acts.RecordInput{
		Run: p.id, Messages: p.messages, Status: p.glance(), Over: over, Traced: p.traced, Trace: slices.Clone(p.core.Trace[p.traced:]),
	}
	for _, e := range p.core.Timeline() {
		if e.Seq > p.recorded {
			p.writing.Events = append(p.writing.Events, e)
		}
	}
	p.messages = nil
	return workflow.ExecuteActivity(drive.Bookkeeping(ctx, "write status.json"), acts.RecordName, p.writing)
}

// wrote notes how the record under way ended. What it did not write belongs to the
// next one.
func (p *pipelineRun) wrote(err error) {
	p.recording = nil
	if err != nil {
		workflow.GetLogger(p.ctx).Error("writing the records failed; the next one repeats it", "error", err)
		p.messages = append(p.writing.Messages, p.messages...)
		return
	}
	if n := len(p.writing.Events); n > 0 {
		p.recorded = p.writing.Events[n-1].Seq
	}
	p.traced = p.writing.Traced + len(p.writing.Trace)
}
