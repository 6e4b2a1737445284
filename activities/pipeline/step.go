package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/team"
	"conclave/engine/text"
)

// RunPipelineStep runs one launch of a pipeline step, or returns the result of the launch if it has
// a commit.
func (a *Activities) RunPipelineStep(ctx context.Context, in StepInput) (StepResult, error) {
	return attempt.Run(ctx, a.Process, in.Launch.ID, func(ctx context.Context, run *attempt.Attempt) (StepResult, error) {
		if in.Launch.Seconds > 0 && in.Launch.Kind != pipeline.Session {
			run.Limit(time.Duration(in.Launch.Seconds * float64(time.Second)))
		}
		ended, err := run.Perform(ctx, func(ctx context.Context) error { return a.assemble(ctx, run, in) })
		if err != nil || ended != nil {
			return StepResult{}, err
		}
		return result(run)
	})
}

// definition reads the pipeline and the step of a launch, and the run's claim.
func (a *Activities) definition(ctx context.Context, store artifact.Store, layout artifact.Layout, in StepInput) (p config.Pipeline, s config.PipelineStep, claim file, err error) {
	if p, err = a.Teams.PipelineByHash(ctx, store, layout, in.ConfigHash); err != nil {
		return p, s, claim, err
	}
	s, ok := p.Step(in.Launch.Step)
	if !ok {
		return p, s, claim, activities.Invalid(fmt.Errorf("the pipeline has no step %s", in.Launch.Step))
	}
	claim, err = artifact.ReadJSON[file](ctx, store, layout.File("pipeline.json"))
	return p, s, claim, err
}

// assemble reads the definition of a step and equips it.
func (a *Activities) assemble(ctx context.Context, run *attempt.Attempt, in StepInput) error {
	p, s, claim, err := a.definition(ctx, run.Ports.Store, artifact.InPipeline(in.Run), in)
	if err != nil {
		return err
	}
	layout, err := activities.Start(ctx, a.Bases(), artifact.InPipeline(in.Run), claim.Material)
	if err != nil {
		return err
	}
	ps := pipelineagent.Step{
		Layout: layout, Launch: in.Launch, Token: run.Token, Attempt: run.Number, Spent: run.Result.Usage,
		Prompt: s.Prompt, Destinations: s.Destinations, Request: claim.Request, StopAtFailure: s.StopsAtFailure(), Patterns: s.Patterns(),
	}
	if ps.Contexts, err = activities.Contexts(ctx, a.Bases(), claim.Material); err != nil {
		return err
	}
	if run.Look != nil {
		ps.Messages = func(ctx context.Context) (int, error) {
			bell, err := run.Look(ctx)
			return len(bell.Messages), err
		}
	}
	run.LimitOutages(attempt.DefaultOutage(), in.Launch.AwaySince)
	if err := a.equip(ctx, run, p, s, in, &ps); err != nil {
		return err
	}
	run.Spec, err = ps.Spec(ctx, run.Ports.Store)
	return err
}

// layout returns the layout of a run with its base.
func (a *Activities) layout(ctx context.Context, id string) (artifact.Layout, error) {
	layout := artifact.InPipeline(id)
	claim, err := artifact.ReadJSON[file](ctx, a.Store, layout.File("pipeline.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return layout, nil
	}
	if err != nil {
		return layout, err
	}
	return activities.Start(ctx, a.Bases(), layout, claim.Material)
}

// equip gives the step a model and tools, according to its kind.
func (a *Activities) equip(ctx context.Context, run *attempt.Attempt, p config.Pipeline, s config.PipelineStep, in StepInput, ps *pipelineagent.Step) error {
	if s.Kind == pipeline.Session {
		return a.equipDecision(ctx, run, s, in, ps)
	}
	agent, ok := p.Player(s)
	if !ok {
		return activities.Invalid(fmt.Errorf("step %s: the pipeline has no agent %s", s.Name, s.Agent))
	}
	if s.Kind == pipeline.Agent {
		ps.Agent = agent.ID
		if ps.Prompt = agent.SystemMessage + s.Prompt; agent.SystemMessage != "" && s.Prompt != "" {
			ps.Prompt = agent.SystemMessage + "\n\n" + s.Prompt
		}
		return run.Equip(ctx, agent)
	}
	var calls pipelineagent.Calls
	for _, use := range s.Calls {
		args := []byte("{}")
		if use.Args != nil {
			var err error
			if args, err = json.Marshal(use.Args); err != nil {
				return activities.Invalid(fmt.Errorf("step %s: the arguments of %s: %w", s.Name, use.Tool, err))
			}
		}
		calls = append(calls, pipelineagent.ToolUse{Tool: use.Tool, Args: args})
	}
	run.Ports.Model = calls
	return run.EquipTools(ctx, agent)
}

// result converts the commit for the workflow.
func result(run *attempt.Attempt) (StepResult, error) {
	ended, err := endedBy(run.Result.Commit)
	if err != nil {
		return StepResult{}, activities.Invalid(err)
	}
	ended.Number, ended.Usage, ended.Seconds = run.Result.Step, run.Result.Usage, run.Seconds()
	return StepResult{Token: run.Token, Heard: run.Result.Commit.Heard, Ended: ended}, nil
}

// endedBy converts a commit to its event, whose text is truncated.
func endedBy(c artifact.Commit) (pipeline.Ended, error) {
	ended, err := pipelineagent.Ended(c)
	ended.Text = text.Truncate(ended.Text, team.MaxReason)
	return ended, err
}
