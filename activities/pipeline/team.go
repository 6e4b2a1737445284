package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
)

// AskTeam says what the team of a session step is asked: the step's prompt, the
// request, and, of a step that is shown them, what earlier steps said.
func (a *Activities) AskTeam(ctx context.Context, in SegmentInput) (TeamQuestion, error) {
	defer activities.Beat(ctx)()
	layout := artifact.InPipeline(in.Run)
	p, err := a.Teams.PipelineByHash(ctx, a.Store, layout, in.ConfigHash)
	if err != nil {
		return TeamQuestion{}, err
	}
	s, ok := p.Step(in.Launch.Step)
	if !ok {
		return TeamQuestion{}, activities.Invalid(fmt.Errorf("the pipeline has no step %s", in.Launch.Step))
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
	return "", activities.Invalid(fmt.Errorf("there are %d sessions with the ID %s and a number: start the run with another ID", maxSessions-1, id))
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
	file, err := artifact.ReadJSON[File](ctx, a.Store, layout.File("pipeline.json"))
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

// playTeam has what a team decided said as the step's text, and its files put into
// the shared workspace, in a directory of the step's name: nothing is overwritten.
func playTeam(ctx context.Context, r *attempt.Attempt, s config.PipelineStep, in SegmentInput, one *pipelineagent.Step) error {
	if in.Decision == nil {
		return activities.Invalid(fmt.Errorf("step %s: what its team decided is missing", s.Name))
	}
	from, final := artifact.InBucket(in.Decision.Session), path.Base(path.Dir(in.Decision.Path))
	answer, err := artifact.ReadJSON[artifact.Answer](ctx, r.Ports.Store, from.Final(final, "answer.json"))
	if err != nil {
		return fmt.Errorf("reading what the team of step %s decided: %w", s.Name, err)
	}
	r.Ports.Model = says{text: answer.Answer, usage: in.Decision.Cost}
	r.Ports.Tools = func(context.Context, string) (step.Tools, error) { return noTools{}, nil }
	one.Launch.Workspace, err = graft(ctx, r.Ports.Store, from, final, in.Launch.Workspace, one.Layout, s.Name)
	return err
}

// graft puts the files of a final answer below a directory of the shared workspace.
func graft(ctx context.Context, store artifact.Store, from artifact.Layout, agent, workspace string, to artifact.Layout, dir string) (string, error) {
	files, err := artifact.ReadJSON[artifact.Manifest](ctx, store, from.Final(agent, "workspace.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return workspace, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the files of the team's answer: %w", err)
	}
	base, err := artifact.LoadManifest(ctx, store, to, workspace)
	if err != nil {
		return "", fmt.Errorf("reading the shared workspace: %w", err)
	}
	return artifact.Graft(ctx, store, from, files, to, base, dir)
}

// says is a model that has one thing to say, which was paid for elsewhere.
type says struct {
	text  string
	usage llm.Usage
}

func (s says) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: s.text}, Usage: s.usage}, nil
}

// noTools are the ordinary tools of a step that needs none.
type noTools struct{}

func (noTools) Tools() []llm.Tool { return nil }
func (noTools) Close() error      { return nil }
func (noTools) Run(_ context.Context, call llm.ToolCall) (loop.Output, error) {
	return loop.Output{Text: "error: there is no tool " + call.Name}, nil
}
