package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/team"
	"conclave/engine/text"
)

// RunSegment runs one segment of a pipeline's step, or finds it run, as RunStep
// does with a step of an agent.
func (a *Activities) RunSegment(ctx context.Context, in SegmentInput) (SegmentResult, error) {
	run := attempt.New(ctx, a.Process, string(in.Launch.ID))
	ended, err := run.Perform(ctx, func(ctx context.Context) error { return a.assemble(ctx, run, in) })
	if err != nil || ended != nil {
		return SegmentResult{}, err
	}
	return result(run)
}

// assemble reads what the segment is about.
func (a *Activities) assemble(ctx context.Context, run *attempt.Attempt, in SegmentInput) error {
	layout := artifact.InPipeline(in.Run)
	store := run.Ports.Store
	p, err := a.Teams.PipelineByHash(ctx, store, layout, in.ConfigHash)
	if err != nil {
		return err
	}
	file, err := artifact.ReadJSON[File](ctx, store, layout.File("pipeline.json"))
	if err != nil {
		return fmt.Errorf("reading pipeline.json: %w", err)
	}
	s, ok := p.Step(in.Launch.Step)
	if !ok {
		return activities.Invalid(fmt.Errorf("the pipeline has no step %s", in.Launch.Step))
	}
	one := pipelineagent.Step{
		Layout: layout, Launch: in.Launch, Token: run.Token, Attempt: run.Number, Spent: run.Result.Usage,
		Prompt: s.Prompt, Destinations: s.Destinations, Request: file.Request,
	}
	if run.Look != nil {
		one.Messages = func(ctx context.Context) (int, error) {
			bell, err := run.Look(ctx)
			return len(bell.Messages), err
		}
	}
	if err := play(ctx, run, p, s, in, &one); err != nil {
		return err
	}
	run.Spec, err = one.Spec(ctx, store)
	return err
}

// play gives the segment what carries it out.
func play(ctx context.Context, run *attempt.Attempt, p config.Pipeline, s config.PipelineStep, in SegmentInput, one *pipelineagent.Step) error {
	if s.Kind == config.SessionStep {
		return playTeam(ctx, run, s, in, one)
	}
	agent, ok := p.Player(s)
	if !ok {
		return activities.Invalid(fmt.Errorf("step %s: the pipeline has no agent %s", s.Name, s.Agent))
	}
	if s.Kind == config.AgentStep {
		one.Agent, one.Prompt = agent.ID, joined(agent.SystemMessage, s.Prompt)
		return run.Equip(ctx, agent)
	}
	var calls pipelineagent.Calls
	for _, use := range s.Calls {
		args, err := json.Marshal(use.Args)
		if use.Args == nil {
			args = []byte("{}")
		}
		if err != nil {
			return activities.Invalid(fmt.Errorf("step %s: the arguments of %s: %w", s.Name, use.Tool, err))
		}
		calls = append(calls, pipelineagent.ToolUse{Tool: use.Tool, Args: args})
	}
	run.Ports.Model = calls
	return run.EquipTools(ctx, agent)
}

// joined puts an agent's own instructions before those of the step.
func joined(system, prompt string) string {
	if system == "" || prompt == "" {
		return system + prompt
	}
	return system + "\n\n" + prompt
}

// result translates the commit for the workflow.
func result(run *attempt.Attempt) (SegmentResult, error) {
	o, err := pipelineagent.ReadOutcome(run.Result.Commit)
	if err != nil {
		return SegmentResult{}, activities.Invalid(err)
	}
	return SegmentResult{
		Token: run.Token, Number: run.Result.Step, Status: o.Status, Action: o.Action, To: o.To, Messages: o.Messages, Iterations: o.Iterations,
		Text: text.Truncate(o.Text, team.MaxReason), Said: o.Text != "" && o.Action != pipeline.Call,
		Workspace: run.Result.Commit.Manifest, Heard: o.Heard, Usage: run.Result.Usage,
	}, nil
}
