package pipeline

import (
	"context"
	"fmt"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// maxAnswer is how much of the final text a result has, in bytes.
const maxAnswer = 8 << 10

// maxEntry is how much of a step's text the history of a result has, in bytes.
const maxEntry = 280

// RecordPipeline writes what people said where steps read it, then the files that
// are derived from the history. It can be repeated.
func (a *Activities) RecordPipeline(ctx context.Context, in RecordInput) error {
	defer activities.Beat(ctx)()
	layout := artifact.InPipeline(in.Run)
	for _, m := range in.Messages { // steps that run wait for these
		key := step.MessageKey(layout, m.Number)
		err := artifact.PutJSON(ctx, a.Store, key, step.Message{Number: m.Number, Text: m.Text, SaidAt: artifact.Timestamp(a.Now())})
		if err != nil {
			return fmt.Errorf("writing %s: %w", key, err)
		}
	}
	if err := activities.AppendEvents(ctx, a.Store, layout, in.Events, func(e pipeline.Entry) int { return e.Seq }); err != nil {
		return err
	}
	file, err := artifact.ReadJSON[File](ctx, a.Store, layout.File("pipeline.json"))
	if err != nil {
		return fmt.Errorf("reading pipeline.json: %w", err)
	}
	in.Status.Request = file.Request
	if in.Status.Trace, err = a.extendTrace(ctx, layout, in); err != nil {
		return err
	}
	if err := artifact.PutJSON(ctx, a.Store, layout.File("status.json"), in.Status); err != nil {
		return fmt.Errorf("writing status.json of run %s: %w", in.Run, err)
	}
	if in.Over {
		step.ForgetAll(ctx, a.Store, layout.File("journal/"))
	}
	return nil
}

// extendTrace is the whole trace: what was written before, and what is new. Sent
// whole each time, it would be in the history as often as there are segments.
func (a *Activities) extendTrace(ctx context.Context, layout artifact.Layout, in RecordInput) ([]pipeline.Segment, error) {
	trace := []pipeline.Segment{}
	if in.Traced > 0 {
		old, err := artifact.ReadJSON[State](ctx, a.Store, layout.File("status.json"))
		if err != nil {
			return nil, fmt.Errorf("reading status.json of run %s: %w", in.Run, err)
		}
		trace = old.Trace[:min(in.Traced, len(old.Trace))]
	}
	return append(trace, in.Trace...), nil
}

// ConcludePipeline reads what the run came to, and writes result.json.
func (a *Activities) ConcludePipeline(ctx context.Context, in ConcludeInput) (Result, error) {
	defer activities.Beat(ctx)()
	layout := artifact.InPipeline(in.Run)
	result := in.Result
	result.History = []HistoryEntry{}
	for _, ref := range in.History {
		c, err := pipelineagent.ReadCommit(ctx, a.Store, layout, ref)
		if err != nil {
			return Result{}, fmt.Errorf("reading the text of step %s: %w", ref.Step, err)
		}
		path := a.Store.URL(layout.Segment(ref.Number, ref.Step, "answer.json"))
		result.History = append(result.History, HistoryEntry{Step: ref.Step, Text: text.Truncate(c.Text, maxEntry), Path: path})
		if in.Final != nil && ref == *in.Final {
			result.Final, result.FinalTruncated = text.Head(c.Text, maxAnswer)
			result.FinalPath = &path
		}
	}
	if err := artifact.PutJSON(ctx, a.Store, layout.File("result.json"), result); err != nil {
		return Result{}, fmt.Errorf("writing result.json of run %s: %w", in.Run, err)
	}
	return result, nil
}
