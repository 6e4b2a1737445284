package pipeline

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
)

// conclude writes the last record and result.json.
func (p *run) conclude(ctx workflow.Context) (acts.Result, error) {
	p.over = true
	if err := p.recorder.Flush(ctx, p); err != nil {
		return acts.Result{}, err
	}
	result := p.summary()
	p.index().End(ctx, string(result.Status), "", result.Usage)
	input := acts.ConcludeInput{Run: p.id, Final: p.result.Final, History: p.core.History, Result: result}
	ctx = drive.Bookkeeping(ctx, "write result.json")
	err := workflow.ExecuteActivity(ctx, registered.ConcludePipeline, input).Get(ctx, &result)
	return result, err
}

func (p *run) summary() acts.Result {
	r := acts.Result{
		ID: p.id, Status: p.result.Status, Trace: p.core.Trace, History: []acts.HistoryEntry{}, Transitions: p.core.Transitions, Usage: p.core.Usage,
	}
	if p.result.Reason != "" {
		r.Error = &artifact.Error{Type: cmp.Or(p.result.Limit, string(p.result.Status)), Message: p.result.Reason}
	}
	if last := len(r.Trace) - 1; last >= 0 && p.result.Limit == "" && r.Trace[last].Error != nil && p.result.Status == pipeline.Failed {
		r.Error = &artifact.Error{Type: r.Trace[last].Error.Type, Message: r.Trace[last].Error.Message}
	}
	return r
}

// cancelled ends a cancelled run, even if the store is unavailable. The run ends as cancelled,
// unless it had a result before the cancellation.
func (p *run) cancelled() (acts.Result, error) {
	ctx, stop := workflow.NewDisconnectedContext(p.ctx)
	defer stop()
	if p.core == nil {
		p.endUnprepared(drive.Cancelled)
		return acts.Result{}, p.ctx.Err()
	}
	late := p.result != nil
	p.core.Step(pipeline.Cancel{})
	p.carryOut(p.core.Drain())
	p.awaitCancelled(ctx)
	if p.result == nil { // the run had ended before
		p.result = p.core.Result
	}
	var result *acts.Result
	drive.FlushInTime(ctx, func(ctx workflow.Context) error {
		r, err := p.conclude(ctx)
		if err == nil {
			result = &r
		}
		return err
	})
	switch {
	case late && result != nil:
		return *result, nil
	case result == nil:
		r := p.summary()
		result = &r
	}
	result.Status = pipeline.Cancelled
	return acts.Result{}, drive.CanceledError(result.Usage, *result)
}

// endUnprepared sets the status in the memo of a run that ends before it is prepared.
func (p *run) endUnprepared(status string) {
	p.memo.Set(p.ctx, map[string]any{drive.MemoStatus: status})
}

// awaitCancelled waits for a cancelled step to report its usage.
func (p *run) awaitCancelled(ctx workflow.Context) {
	drive.AwaitCancelled(ctx, p.selectStep, p.reckonLost)
}

// record writes new events and messages immediately, because running steps read messages from the
// store.
func (p *run) record() {
	p.core.Stamp(artifact.Timestamp(workflow.Now(p.ctx)))
	if !p.recorder.Writing() && (len(p.messages) > 0 || p.recorded != p.core.Events) {
		p.recorder.Write(p.ctx, p)
	}
}

// StartRecord starts the activity that writes the new entries. It is part of drive.Recorder's
// history.
func (p *run) StartRecord(ctx workflow.Context) workflow.Future {
	p.core.Stamp(artifact.Timestamp(workflow.Now(ctx)))
	p.writing = acts.RecordInput{
		Run: p.id, Messages: p.messages, Status: p.glance(), Over: p.over, Traced: p.traced, Trace: slices.Clone(p.core.Trace[p.traced:]),
	}
	if p.over {
		p.writing.Began = workflow.GetInfo(ctx).WorkflowStartTime
	}
	for _, e := range p.core.Timeline() {
		if e.Seq > p.recorded {
			p.writing.Events = append(p.writing.Events, e)
		}
	}
	p.writing.Saved = &acts.Saved{Core: p.core.Outline(), Prepared: p.prepared, Recorded: p.core.Events, Traced: len(p.core.Trace), SecondsLeft: p.secondsLeft()}
	p.writing.Saved.Prepared.Graph = pipeline.Graph{}
	p.messages = nil
	return workflow.ExecuteActivity(drive.Bookkeeping(ctx, "write status.json"), registered.RecordPipeline, p.writing)
}

// Recorded receives the result of the activity that StartRecord started.
func (p *run) Recorded(ctx workflow.Context, written workflow.Future) error {
	if err := written.Get(ctx, nil); err != nil {
		p.messages = append(p.writing.Messages, p.messages...)
		return err
	}
	if n := len(p.writing.Events); n > 0 {
		p.recorded = p.writing.Events[n-1].Seq
	}
	p.traced = p.writing.Traced + len(p.writing.Trace)
	return nil
}
