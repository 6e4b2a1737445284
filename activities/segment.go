package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/step"
	"conclave/engine/team"
	"conclave/engine/text"
)

// RunSegment runs one segment of a pipeline's step, or finds it run, as RunStep
// does with a step of an agent.
func (a *Activities) RunSegment(ctx context.Context, in SegmentInput) (SegmentResult, error) {
	run := a.stepRun(ctx, string(in.Launch.ID))
	run.assemble = func(ctx context.Context) error { return run.assembleSegment(ctx, in) }
	if itself, err := run.perform(ctx); err != nil || itself != nil {
		return SegmentResult{}, err
	}
	return run.segmentResult()
}

// assembleSegment reads what the segment is about.
func (r *stepRun) assembleSegment(ctx context.Context, in SegmentInput) error {
	layout := artifact.InPipeline(in.Run)
	p, err := r.definition(ctx, layout, in.ConfigHash)
	if err != nil {
		return err
	}
	file, err := artifact.ReadJSON[PipelineFile](ctx, r.ports.Store, layout.File("pipeline.json"))
	if err != nil {
		return fmt.Errorf("reading pipeline.json: %w", err)
	}
	s, ok := p.Step(in.Launch.Step)
	if !ok {
		return invalid(fmt.Errorf("the pipeline has no step %s", in.Launch.Step))
	}
	one := pipelineagent.Step{
		Layout: layout, Launch: in.Launch, Token: r.token, Attempt: r.attempt, Spent: r.result.Usage,
		Prompt: s.Prompt, Destinations: s.Destinations, Request: file.Request,
	}
	if r.bell != nil {
		one.Messages = r.bell.messages
	}
	if err := r.play(ctx, p, s, in, &one); err != nil {
		return err
	}
	r.spec, err = one.Spec(ctx, r.ports.Store)
	return err
}

// play gives the segment what carries it out.
func (r *stepRun) play(ctx context.Context, p config.Pipeline, s config.PipelineStep, in SegmentInput, one *pipelineagent.Step) error {
	if s.Kind == config.SessionStep {
		return r.playTeam(ctx, s, in, one)
	}
	agent, ok := p.Player(s)
	if !ok {
		return invalid(fmt.Errorf("step %s: the pipeline has no agent %s", s.Name, s.Agent))
	}
	if s.Kind == config.AgentStep {
		one.Agent, one.Prompt = agent.ID, joined(agent.SystemMessage, s.Prompt)
		return r.equip(ctx, agent)
	}
	var calls pipelineagent.Calls
	for _, use := range s.Calls {
		args, err := json.Marshal(use.Args)
		if use.Args == nil {
			args = []byte("{}")
		}
		if err != nil {
			return invalid(fmt.Errorf("step %s: the arguments of %s: %w", s.Name, use.Tool, err))
		}
		calls = append(calls, pipelineagent.ToolUse{Tool: use.Tool, Args: args})
	}
	r.ports.Model = calls
	return r.lend(ctx, agent)
}

// joined puts an agent's own instructions before those of the step.
func joined(system, prompt string) string {
	if system == "" || prompt == "" {
		return system + prompt
	}
	return system + "\n\n" + prompt
}

// playTeam has what a team decided said as the step's text, and its files put into
// the shared workspace, in a directory of the step's name: nothing is overwritten.
func (r *stepRun) playTeam(ctx context.Context, s config.PipelineStep, in SegmentInput, one *pipelineagent.Step) error {
	if in.Decision == nil {
		return invalid(fmt.Errorf("step %s: what its team decided is missing", s.Name))
	}
	from, final := artifact.InBucket(in.Decision.Session), path.Base(path.Dir(in.Decision.Path))
	answer, err := artifact.ReadJSON[artifact.Answer](ctx, r.ports.Store, from.Final(final, "answer.json"))
	if err != nil {
		return fmt.Errorf("reading what the team of step %s decided: %w", s.Name, err)
	}
	r.ports.Model = says{text: answer.Answer, usage: in.Decision.Cost}
	r.ports.Tools = func(context.Context, string) (step.Tools, error) { return noTools{}, nil }
	one.Launch.Workspace, err = r.graft(ctx, from, final, in.Launch.Workspace, one.Layout, s.Name)
	return err
}

// graft puts the files of a final answer below a directory of the shared workspace.
func (r *stepRun) graft(ctx context.Context, from artifact.Layout, agent, workspace string, to artifact.Layout, dir string) (string, error) {
	files, err := artifact.ReadJSON[artifact.Manifest](ctx, r.ports.Store, from.Final(agent, "workspace.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return workspace, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the files of the team's answer: %w", err)
	}
	base, err := artifact.LoadManifest(ctx, r.ports.Store, to, workspace)
	if err != nil {
		return "", fmt.Errorf("reading the shared workspace: %w", err)
	}
	return artifact.Graft(ctx, r.ports.Store, from, files, to, base, dir)
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

// segmentResult translates the commit for the workflow.
func (r *stepRun) segmentResult() (SegmentResult, error) {
	o, err := pipelineagent.ReadOutcome(r.result.Commit)
	if err != nil {
		return SegmentResult{}, invalid(err)
	}
	return SegmentResult{
		Token: r.token, Number: r.result.Step, Status: o.Status, Action: o.Action, To: o.To, Messages: o.Messages, Iterations: o.Iterations,
		Text: text.Truncate(o.Text, team.MaxReason), Said: o.Text != "" && o.Action != pipeline.Call,
		Workspace: r.result.Commit.Manifest, Heard: o.Heard, Usage: r.result.Usage,
	}, nil
}
