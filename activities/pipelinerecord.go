package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/text"
)

// maxEntry is how much of a step's text the history of a result has, in bytes.
const maxEntry = 280

// RecordPipeline writes what people said where steps read it, then the files that
// are derived from the history. It can be repeated.
func (a *Activities) RecordPipeline(ctx context.Context, in RecordPipelineInput) error {
	defer pulse(ctx)()
	layout := artifact.InPipeline(in.Run)
	for _, m := range in.Messages { // steps that run wait for these
		key := step.MessageKey(layout, m.Number)
		err := artifact.PutJSON(ctx, a.Store, key, step.Message{Number: m.Number, Text: m.Text, SaidAt: artifact.Timestamp(a.Now())})
		if err != nil {
			return fmt.Errorf("writing %s: %w", key, err)
		}
	}
	if err := appendEvents(ctx, a.Store, layout, in.Events, func(e pipeline.Entry) int { return e.Seq }); err != nil {
		return err
	}
	file, err := artifact.ReadJSON[PipelineFile](ctx, a.Store, layout.File("pipeline.json"))
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
func (a *Activities) extendTrace(ctx context.Context, layout artifact.Layout, in RecordPipelineInput) ([]pipeline.Segment, error) {
	trace := []pipeline.Segment{}
	if in.Traced > 0 {
		old, err := artifact.ReadJSON[PipelineState](ctx, a.Store, layout.File("status.json"))
		if err != nil {
			return nil, fmt.Errorf("reading status.json of run %s: %w", in.Run, err)
		}
		trace = old.Trace[:min(in.Traced, len(old.Trace))]
	}
	return append(trace, in.Trace...), nil
}

// ConcludePipeline reads what the run came to, and writes result.json.
func (a *Activities) ConcludePipeline(ctx context.Context, in ConcludePipelineInput) (PipelineResult, error) {
	defer pulse(ctx)()
	layout := artifact.InPipeline(in.Run)
	result := in.Result
	result.History = []HistoryEntry{}
	for _, ref := range in.History {
		c, err := pipelineagent.ReadCommit(ctx, a.Store, layout, ref)
		if err != nil {
			return PipelineResult{}, fmt.Errorf("reading the text of step %s: %w", ref.Step, err)
		}
		path := a.Store.URL(layout.Segment(ref.Number, ref.Step, "answer.json"))
		result.History = append(result.History, HistoryEntry{Step: ref.Step, Text: text.Truncate(c.Text, maxEntry), Path: path})
		if in.Final != nil && ref == *in.Final {
			result.Final, result.FinalTruncated = text.Head(c.Text, MaxAnswer)
			result.FinalPath = &path
		}
	}
	if err := artifact.PutJSON(ctx, a.Store, layout.File("result.json"), result); err != nil {
		return PipelineResult{}, fmt.Errorf("writing result.json of run %s: %w", in.Run, err)
	}
	return result, nil
}

// AskTeam says what the team of a session step is asked: the step's prompt, the
// request, and, of a step that is shown them, what earlier steps said.
func (a *Activities) AskTeam(ctx context.Context, in SegmentInput) (TeamQuestion, error) {
	defer pulse(ctx)()
	layout := artifact.InPipeline(in.Run)
	p, err := a.definition(ctx, layout, in.ConfigHash)
	if err != nil {
		return TeamQuestion{}, err
	}
	s, ok := p.Step(in.Launch.Step)
	if !ok {
		return TeamQuestion{}, invalid(fmt.Errorf("the pipeline has no step %s", in.Launch.Step))
	}
	q, err := a.question(ctx, layout, in.Launch, s)
	if err != nil {
		return TeamQuestion{}, err
	}
	if q.Session, err = a.freeSession(ctx, in.TeamSession()); err != nil {
		return TeamQuestion{}, err
	}
	if s.Config == nil {
		q.Team = s.Team
		return q, nil
	}
	return a.withTeam(q, *s.Config)
}

// maxSessions bounds how many sessions of others are passed over.
const maxSessions = 99

// freeSession is an ID that no session has: the given one, or it and the first
// number that is free. The session of this step is not there yet.
func (a *Activities) freeSession(ctx context.Context, id string) (string, error) {
	free := id
	for n := 2; n <= maxSessions; n++ {
		taken, err := a.Store.Exists(ctx, artifact.InBucket(free).File("session.json"))
		if err != nil {
			return "", fmt.Errorf("looking for session %s: %w", free, err)
		}
		if !taken {
			return free, nil
		}
		free = fmt.Sprintf("%s-%d", id, n)
	}
	return "", invalid(fmt.Errorf("there are %d sessions with the ID %s and a number: start the run with another ID", maxSessions-1, id))
}

// withTeam names the team of a step where it can be registered, and sends it along
// where it cannot: there it may not define anything.
func (a *Activities) withTeam(q TeamQuestion, t config.Team) (TeamQuestion, error) {
	var err error
	if a.Teams.Dir != "" {
		q.Team, err = a.Teams.Register(t)
	} else {
		q.Config, err = t.Canonical()
	}
	return q, err
}

// question puts together what the team is asked.
func (a *Activities) question(ctx context.Context, layout artifact.Layout, l pipeline.Launch, s config.PipelineStep) (TeamQuestion, error) {
	file, err := artifact.ReadJSON[PipelineFile](ctx, a.Store, layout.File("pipeline.json"))
	if err != nil {
		return TeamQuestion{}, fmt.Errorf("reading pipeline.json: %w", err)
	}
	texts, err := pipelineagent.Texts(ctx, a.Store, layout, l.History)
	if err != nil {
		return TeamQuestion{}, err
	}
	said, err := pipelineagent.ReadMessages(ctx, a.Store, layout, 0, l.Messages)
	if err != nil {
		return TeamQuestion{}, err
	}
	frame := pipelineagent.Frame(activity.GetInfo(ctx).WorkflowExecution.RunID + "-" + string(l.ID))
	return TeamQuestion{Query: pipelineagent.Question(pipelineagent.Task{
		Prompt: s.Prompt, Request: file.Request, History: texts, Omitted: l.Omitted, Messages: said, Frame: frame,
	})}, nil
}
