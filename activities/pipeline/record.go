package pipeline

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// Maximum lengths of the texts in a result, in bytes.
const (
	maxAnswer = 8 << 10 // most bytes of the final text
	maxEntry  = 280     // longest text of a step
)

// RecordPipeline writes human messages for running steps, then the documents derived from the
// history. It deletes the journals when a run has ended and cannot be reopened.
func (a *Activities) RecordPipeline(ctx context.Context, in RecordInput) error {
	defer activities.Beat(ctx)()
	layout := artifact.InPipeline(in.Run)
	if err := a.refuseLate(ctx, layout, in); err != nil {
		return err
	}
	for _, m := range in.Messages {
		if err := activities.WriteMessage(ctx, a.Store, layout, step.Message{Number: m.Number, Text: m.Text}, a.Now()); err != nil {
			return err
		}
	}
	if _, err := activities.AppendEvents(ctx, a.Store, layout, nil, in.Events, func(e pipeline.Entry) int { return e.Seq }); err != nil {
		return err
	}
	run, err := artifact.ReadJSON[file](ctx, a.Store, layout.File("pipeline.json"))
	if err != nil {
		return err
	}
	in.Status.Request = run.Request
	if in.Status.Trace, err = a.extendTrace(ctx, layout, in); err != nil {
		return err
	}
	if err := artifact.PutJSON(ctx, a.Store, layout.File("status.json"), in.Status); err != nil {
		return err
	}
	keep := false
	if in.Saved != nil {
		run := activity.GetInfo(ctx).WorkflowExecution.RunID
		saved := savedState{Format: savedFormat, Run: run, At: artifact.Timestamp(a.Now()), Saved: *in.Saved}
		if err := artifact.PutJSON(ctx, a.Store, layout.SavedState(run), saved); err != nil {
			return err
		}
		keep = in.Saved.Core.Refuse(pipeline.Reopened{}) == nil
	}
	if in.Over {
		a.Over(layout)
	}
	if in.Over && !keep {
		step.Forget(ctx, a.Store, layout.File("journal/"))
	}
	return nil
}

// refuseLate returns an error if a later run of the workflow has reopened the run.
func (a *Activities) refuseLate(ctx context.Context, layout artifact.Layout, in RecordInput) error {
	if in.Saved == nil { // the workflow is of a version that cannot be reopened
		return nil
	}
	late, err := a.Store.Exists(ctx, reopeningKey(layout, in.Saved.Prepared.Seal+1))
	if err == nil && late {
		err = activities.Superseded("recording run %s: a later run of the workflow goes on with it", in.Run)
	}
	return err
}

// extendTrace appends the new entries to the recorded trace, which the workflow's history does not
// contain.
func (a *Activities) extendTrace(ctx context.Context, layout artifact.Layout, in RecordInput) ([]pipeline.TraceEntry, error) {
	trace := []pipeline.TraceEntry{}
	if in.Traced > 0 {
		old, err := artifact.ReadJSON[State](ctx, a.Store, layout.File("status.json"))
		if err != nil {
			return nil, err
		}
		trace = old.Trace[:min(in.Traced, len(old.Trace))]
	}
	return append(trace, in.Trace...), nil
}

// ConcludePipeline reads the texts for a run's result and writes result.json.
func (a *Activities) ConcludePipeline(ctx context.Context, in ConcludeInput) (Result, error) {
	defer activities.Beat(ctx)()
	layout := artifact.InPipeline(in.Run)
	result := in.Result
	result.History = []HistoryEntry{}
	for _, ref := range in.History {
		if ref.Textless {
			continue
		}
		c, err := pipelineagent.ReadCommit(ctx, a.Store, layout, ref)
		if err != nil {
			return Result{}, fmt.Errorf("reading the text of step %s: %w", ref.Step, err)
		}
		path := a.Store.URL(layout.PipelineStep(ref.Number, ref.Step, "answer.json"))
		result.History = append(result.History, HistoryEntry{Step: ref.Step, Text: text.Truncate(c.Text, maxEntry), Path: path})
		if in.Final != nil && ref.Number == in.Final.Number {
			result.Final, result.FinalTruncated = text.Head(c.Text, maxAnswer)
			result.FinalPath = &path
		}
	}
	return result, artifact.PutJSON(ctx, a.Store, layout.File("result.json"), result)
}
