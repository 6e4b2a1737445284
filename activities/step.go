package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/member"
	"conclave/engine/step"
)

// MaxFruitless is how many attempts without progress end a step.
const MaxFruitless = 3

// StepInput is one launch. What is large, the query above all, is read from the
// session's directory: an input is in the history for ever.
type StepInput struct {
	Session    string              `json:"session"`
	ConfigHash string              `json:"config_hash"`
	Launch     coordination.Launch `json:"launch"`
}

// StepResult is a step's action as the workflow needs it: references and short
// text.
type StepResult struct {
	// Token is the execution token, by which the workflow knows a result that a
	// step came to from one that somebody completed the activity with.
	Token string `json:"token,omitempty"`

	Step int `json:"step"`

	// Ended is why a step ended itself without an action, a loop.EndedError's
	// Why; empty with an action.
	Ended string `json:"ended,omitempty"`

	Action      coordination.Action     `json:"action,omitempty"`
	Target      string                  `json:"target,omitempty"`
	TargetLabel string                  `json:"target_label,omitempty"`
	Reason      string                  `json:"reason,omitempty"` // of a vote or a restart, cut at member.MaxReason bytes
	Status      coordination.StopStatus `json:"status,omitempty"`
	Summary     string                  `json:"summary,omitempty"` // of a stop, cut like Reason
	Seen        []coordination.Seen     `json:"seen,omitempty"`
	Heard       int                     `json:"heard,omitempty"` // number of the last human message that was told
	Files       int                     `json:"files,omitempty"`
	Usage       llm.Usage               `json:"usage"`
}

// RunStep runs one step of an agent, or finds it run. An error is final, with a
// StepFailure in its details, or is retried on any worker; the step's number,
// its claim and what was spent survive the attempt.
func (a *Activities) RunStep(ctx context.Context, in StepInput) (StepResult, error) {
	v := previous(ctx)
	exhausted := v.Fruitless >= MaxFruitless
	if !exhausted {
		v.Fruitless++
	}
	h, stepCtx, stop := a.startHeart(ctx, v)
	defer stop()

	run := a.stepRun(ctx, in, v)
	run.heart, run.counted = h, !exhausted
	var err error
	if exhausted {
		err = run.lookAgain(stepCtx)
	} else {
		err = run.carryOut(stepCtx)
	}
	var itself *loop.EndedError
	switch {
	case err == nil:
		for _, warning := range run.result.Warnings {
			activity.GetLogger(ctx).Warn("a file is no part of the answer", "agent", in.Launch.Agent, "step", run.result.Step, "file", warning)
		}
		return run.outcome()
	case errors.As(err, &itself):
		return run.endedItself(ctx, itself), nil
	case ended(stepCtx, err):
		if isHold(err) {
			a.held(ctx, run, h)
		}
		return StepResult{}, run.cutShort(ctx, err)
	default:
		return StepResult{}, a.fail(ctx, run, h, err)
	}
}

// previous reads the vitals of the attempts before this one.
func previous(ctx context.Context) vitals {
	var v vitals
	if activity.HasHeartbeatDetails(ctx) {
		// Details of another shape come from another version; the count starts again.
		_ = activity.GetHeartbeatDetails(ctx, &v)
	}
	return v
}

// stepRun is one attempt of RunStep.
type stepRun struct {
	*Activities
	in      StepInput
	token   string // the same for every attempt of a launch, new after a reset
	attempt int    // from 1
	heart   *heart
	bell    *doorbell // nil for none
	counted bool      // among the attempts without progress
	ports   step.Ports
	spec    step.Spec
	result  step.Result // what is known of the step, earlier attempts included
}

func (a *Activities) stepRun(ctx context.Context, in StepInput, v vitals) *stepRun {
	info := activity.GetInfo(ctx)
	execution := info.WorkflowExecution
	r := &stepRun{
		Activities: a, in: in, token: execution.RunID + "-" + string(in.Launch.ID), attempt: int(info.Attempt),
		ports:  step.Ports{Store: storage{a.Store}, Now: a.Now, Scratch: a.Scratch, Repeatable: a.Repeatable, Redact: a.Redact},
		result: step.Result{Step: v.Step, Usage: v.Usage},
	}
	if a.Bell != nil {
		r.bell = &doorbell{read: a.Bell, workflow: execution}
	}
	return r
}

// carryOut assembles the step and runs it.
func (r *stepRun) carryOut(ctx context.Context) error {
	if err := r.assemble(ctx); err != nil {
		return err
	}
	r.ports.Progress = r.progress
	r.ports.Alive = r.heart.alive
	var err error
	r.result, err = step.Run(ctx, r.ports, r.spec)
	return err
}

// assemble reads what the step is about.
func (r *stepRun) assemble(ctx context.Context) error {
	layout := artifact.InBucket(r.in.Session)
	store := r.ports.Store
	team, err := r.Teams.byHash(ctx, store, layout, r.in.ConfigHash)
	if err != nil {
		return err
	}
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, layout.File("session.json"))
	if err != nil {
		return fmt.Errorf("reading session.json: %w", err)
	}
	criteria, err := readCriteria(ctx, store, layout)
	if err != nil {
		return err
	}
	agent, ok := team.Agent(r.in.Launch.Agent)
	if !ok {
		return invalid(fmt.Errorf("the team has no agent %s", r.in.Launch.Agent))
	}
	if r.ports.Model, err = r.Model(agent); err != nil {
		return err
	}
	r.ports.Tools = func(ctx context.Context, workspace string) (step.Tools, error) { return r.Tools(ctx, agent, workspace) }
	r.spec, err = r.member(team, agent, session.Query, criteria).Spec(ctx, store)
	return err
}

// member is the step of the launch. However little it may be told, people can
// always be heard.
func (r *stepRun) member(t config.Team, agent config.Agent, query string, criteria config.Criteria) member.Step {
	m := member.Step{
		Layout: artifact.InBucket(r.in.Session), Launch: r.in.Launch, Token: r.token, Attempt: r.attempt, Spent: r.result.Usage,
		Query: query, SystemMessage: agent.SystemMessage, Criteria: member.CriteriaOf(criteria),
		Files: agent.Tools.Files, Settings: member.SettingsOf(t),
	}
	for _, a := range t.Agents {
		m.Agents = append(m.Agents, a.ID)
	}
	if r.bell != nil {
		m.Bell = r.bell.look
	}
	return m
}

func (r *stepRun) progress(p step.Progress) {
	// What the journal keeps is not done again, so the attempt was of use; a reply
	// of no use is kept, too, and is none.
	fruitful := p.Kept > 0 && p.Last != loop.Wasted
	if fruitful {
		r.counted = false
	}
	r.heart.write(func(v *vitals) {
		v.StepFailure = StepFailure{Step: p.Step, Token: r.token, Usage: p.Usage}
		v.Last = string(p.Last)
		if fruitful {
			v.Fruitless = 0
		}
	})
}

// outcome translates the commit for the workflow.
func (r *stepRun) outcome() (StepResult, error) {
	o, err := member.ReadOutcome(r.result.Commit)
	if err != nil {
		return StepResult{}, invalid(err)
	}
	return StepResult{
		Token: r.token, Step: r.result.Step, Action: o.Action, Target: o.Target, TargetLabel: o.TargetLabel, Reason: o.Reason,
		Status: o.Status, Summary: o.Summary, Seen: o.Seen, Heard: o.Heard, Files: r.result.Files, Usage: r.result.Usage,
	}, nil
}

func (r *stepRun) failure() StepFailure {
	return StepFailure{Step: r.result.Step, Token: r.token, Usage: r.result.Usage}
}
