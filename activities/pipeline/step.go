package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/engine/session"
	"conclave/engine/text"
)

// RunPipelineStep runs one launch of a pipeline step, or returns the result of the launch if it has
// a commit.
func (a *Activities) RunPipelineStep(ctx context.Context, in StepInput) (StepResult, error) {
	return attempt.Run(ctx, a.Process, in.Launch.ID, func(ctx context.Context, run *attempt.Attempt) (StepResult, error) {
		if in.Launch.Seconds > 0 && in.Launch.Kind != pipeline.Session {
			run.Limit(time.Duration(in.Launch.Seconds * float64(time.Second)))
		}
		ended, err := run.Perform(ctx, func(ctx context.Context) error { return a.assembleStep(ctx, run, in) })
		if err != nil || ended != nil {
			return StepResult{}, err
		}
		return stepResult(run)
	})
}

func (a *Activities) readDefinition(ctx context.Context, store artifact.Store, layout artifact.Layout, in StepInput) (p config.Pipeline, s config.PipelineStep, claim file, err error) {
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

func (a *Activities) assembleStep(ctx context.Context, run *attempt.Attempt, in StepInput) error {
	p, s, claim, err := a.readDefinition(ctx, run.Ports.Store, artifact.InPipeline(in.Run), in)
	if err != nil {
		return err
	}
	layout, err := activities.Start(ctx, a.Bases(), artifact.InPipeline(in.Run), claim.Material)
	if err != nil {
		return err
	}
	ps := pipelineagent.Step{
		Layout: layout, Launch: in.Launch, Token: run.Token, Attempt: run.Number, Spent: run.Result.Usage,
		Prompt: s.Prompt, Destinations: s.Destinations, Request: claim.Request, Inputs: claim.Inputs,
		StopAtFailure: s.StopsAtFailure(), Contents: s.Contents(), Output: s.Output, Lists: listsFrom(p, s.Name),
	}
	ps.Items, ps.ItemsPath = itemsFor(p, in.Launch)
	if ps.Contexts, err = activities.Contexts(ctx, a.Bases(), claim.Material); err != nil {
		return err
	}
	ps.Messages = func(ctx context.Context) (int, error) {
		bell, err := run.Look(ctx)
		return len(bell.Messages), err
	}
	run.LimitOutages(attempt.DefaultOutage(), in.Launch.AwaySince)
	if err := a.equipStep(ctx, run, p, s, claim.Owner, in, &ps); err != nil {
		return err
	}
	run.Spec, err = ps.Spec(ctx, run.Ports.Store)
	return err
}

func (a *Activities) runLayout(ctx context.Context, id string) (artifact.Layout, error) {
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

func (a *Activities) equipStep(ctx context.Context, run *attempt.Attempt, p config.Pipeline, s config.PipelineStep, owner artifact.Owner, in StepInput, ps *pipelineagent.Step) error {
	switch s.Kind {
	case pipeline.Session:
		return a.equipDecision(ctx, run, s, in, ps)
	case pipeline.Parallel, pipeline.ForEach, pipeline.Nested:
		return equipJoin(ctx, run, s, ps)
	case pipeline.Approval:
		if in.Launch.Reply == nil {
			return activities.Invalid(fmt.Errorf("step %s: its reply is missing", s.Name))
		}
		equipStatement(run, in.Launch.Reply.Answer())
		return nil
	case pipeline.Agent, pipeline.Tools:
	}
	agent, ok := p.Player(s)
	if !ok {
		return activities.Invalid(fmt.Errorf("step %s: the pipeline has no agent %s", s.Name, s.Agent))
	}
	settled, _, err := activities.SettleShell(ctx, a.Confined, run.Ports.Store, ps.Layout, agent)
	if err != nil {
		return err
	}
	agent = settled[0]
	if s.Kind == pipeline.Agent {
		ps.Agent, ps.System = agent.ID, agent.SystemMessage
		run.Agent = owner.FirstRunID + "/" + s.Name // a step of tools may check the work of an agent, so it is not named
		return run.Equip(ctx, agent)
	}
	values, err := ps.Values(ctx, run.Ports.Store)
	if err != nil {
		return err
	}
	var calls pipelineagent.Calls
	for _, use := range s.Calls {
		args := []byte("{}")
		if use.Args != nil {
			filled, err := pipelineagent.FillArguments(use.Tool, use.Args, values)
			if err == nil {
				args, err = json.Marshal(filled)
			}
			if err != nil {
				return activities.Invalid(fmt.Errorf("step %s: the arguments of %s: %w", s.Name, use.Tool, err))
			}
		}
		calls = append(calls, pipelineagent.ToolUse{Tool: use.Tool, Args: args})
	}
	run.Ports.Model = calls
	return run.EquipTools(ctx, agent)
}

func stepResult(run *attempt.Attempt) (StepResult, error) {
	ended, err := endedBy(run.Result.Commit)
	if err != nil {
		return StepResult{}, activities.Invalid(err)
	}
	ended.Number, ended.Usage, ended.Seconds = run.Result.Step, run.Result.Usage, run.Seconds()
	return StepResult{Token: run.Token, Heard: run.Result.Commit.Heard, Ended: ended}, nil
}

func endedBy(c artifact.Commit) (pipeline.Ended, error) {
	ended, err := pipelineagent.Ended(c)
	ended.Text = text.Truncate(ended.Text, session.MaxReason)
	return ended, err
}

func graphOf(p config.Pipeline) pipeline.Graph {
	g := pipeline.Graph{
		Start: p.Start, MaxTransitions: p.Limits.MaxTransitions, MaxDepth: p.Limits.MaxCallDepth, Park: p.OnStepFailure == "park",
		Seconds: valueOrZero(p.Limits.Seconds), CostUSD: valueOrZero(p.Limits.CostUSD), Result: p.Result, Finally: p.Finally,
		MaxSteps: cmp.Or(valueOrZero(p.Limits.Steps), defaultSteps),
	}
	for _, s := range p.Steps {
		g.Steps = append(g.Steps, nodeOf(s))
	}
	return g
}

// defaultSteps is the limit of steps of a run that sets none.
const defaultSteps = 2000

func nodeOf(s config.PipelineStep) pipeline.Node {
	n := pipeline.Node{
		Name: s.Name, Kind: s.Kind, Destinations: s.Destinations, MaxIterations: s.MaxIterations, History: s.History.Policy(), Reads: s.Reads(), End: s.End, Retry: s.Retry.Policy(),
		Limits: pipeline.Limits{Seconds: valueOrZero(s.Limits.Seconds), ModelCalls: valueOrZero(s.Limits.ModelCalls), CostUSD: valueOrZero(s.Limits.CostUSD)},
	}
	s.Fork(&n)
	if s.Kind != pipeline.Agent { // only agents make model calls
		n.MaxIterations = pipeline.DefaultIterations
	}
	if s.MaxVisits != nil {
		n.MaxVisits, n.Instead = s.MaxVisits.Count, s.MaxVisits.Then
	}
	for _, b := range s.Next {
		n.Next = append(n.Next, b.Rule())
	}
	return n
}

func valueOrZero[T int | float64](key *T) T {
	if key == nil {
		return 0
	}
	return *key
}

// ReckonInput is a step that ended without a report. Its launch has only the fields that identify
// the step.
type ReckonInput struct {
	Run    string          `json:"run"`
	Launch pipeline.Launch `json:"launch"`
	attempt.Ended
}

// ReckonPipelineStep returns the number and the usage of a step according to the store.
func (a *Activities) ReckonPipelineStep(ctx context.Context, in ReckonInput) (attempt.Failure, error) {
	layout, err := a.runLayout(ctx, in.Run)
	if err != nil {
		return attempt.Failure{}, err
	}
	spec, err := pipelineagent.Step{Layout: layout, Launch: in.Launch, Token: in.Token}.Place(ctx, a.Store)
	if err != nil {
		return attempt.Failure{}, err
	}
	return a.Reckon(ctx, spec, in.Ended)
}
