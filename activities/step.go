package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team"
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
	Reason      string                  `json:"reason,omitempty"` // of a vote or a restart, cut at team.MaxReason bytes
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
	run := a.stepRun(ctx, string(in.Launch.ID))
	run.assemble = func(ctx context.Context) error { return run.assembleMember(ctx, in) }
	itself, err := run.perform(ctx)
	switch {
	case err != nil:
		return StepResult{}, err
	case itself != nil:
		return run.endedItself(ctx, itself), nil
	}
	return run.outcome()
}

// perform makes one attempt of the step, whatever kind of step it is: with a
// heartbeat, the count of attempts without progress, and the classes of errors. It
// returns the way in which the step ended itself without an action, if it did.
func (r *stepRun) perform(ctx context.Context) (*loop.EndedError, error) {
	exhausted := r.vitals.Fruitless >= MaxFruitless
	if !exhausted {
		r.vitals.Fruitless++
	}
	h, stepCtx, stop := r.startHeart(ctx, r.vitals)
	defer stop()
	r.heart, r.counted = h, !exhausted
	var err error
	if exhausted {
		err = r.lookAgain(stepCtx)
	} else {
		err = r.carryOutInTime(stepCtx)
	}
	var itself *loop.EndedError
	switch {
	case err == nil:
		for _, warning := range r.result.Warnings {
			activity.GetLogger(ctx).Warn("a file is no part of the answer", "step", r.result.Step, "file", warning)
		}
		return nil, nil
	case errors.As(err, &itself):
		return itself, nil
	case ended(stepCtx, err):
		if isHold(err) {
			r.held(ctx, r, h)
		}
		return nil, r.cutShort(ctx, err)
	default:
		return nil, r.fail(ctx, r, h, err)
	}
}

// previous reads the vitals of the attempts before this one.
func previous(ctx context.Context) vitals {
	var v vitals
	if activity.HasHeartbeatDetails(ctx) {
		// Details of another shape come from another version; the count starts again.
		_ = activity.GetHeartbeatDetails(ctx, &v)
	}
	v.Waiting = "" // that was the attempt before
	return v
}

// stepRun is one attempt of a step.
type stepRun struct {
	*Activities
	token   string // the same for every attempt of a launch, new after a reset
	attempt int    // from 1
	vitals  vitals // of the attempts before this one
	heart   *heart
	bell    *doorbell     // nil for none
	counted bool          // among the attempts without progress
	limit   time.Duration // of the step since its first attempt began; 0 for none
	ports   step.Ports
	spec    step.Spec
	result  step.Result // what is known of the step, earlier attempts included

	// assemble reads what the step is about into ports and spec.
	assemble func(ctx context.Context) error
}

func (a *Activities) stepRun(ctx context.Context, launch string) *stepRun {
	info := activity.GetInfo(ctx)
	execution := info.WorkflowExecution
	v := previous(ctx)
	r := &stepRun{
		Activities: a, vitals: v, token: execution.RunID + "-" + launch, attempt: int(info.Attempt),
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

// assembleMember reads what the step of a team member is about.
func (r *stepRun) assembleMember(ctx context.Context, in StepInput) error {
	layout := artifact.InBucket(in.Session)
	store := r.ports.Store
	team, err := r.Teams.byHash(ctx, store, layout, in.ConfigHash)
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
	agent, ok := team.Agent(in.Launch.Agent)
	if !ok {
		return invalid(fmt.Errorf("the team has no agent %s", in.Launch.Agent))
	}
	if err := r.equip(ctx, agent); err != nil {
		return err
	}
	r.spec, err = r.member(in, team, agent, session.Query, criteria).Spec(ctx, store)
	return err
}

// equip gives the step the model and the tools of an agent.
func (r *stepRun) equip(ctx context.Context, agent config.Agent) error {
	var err error
	if r.ports.Model, err = r.Model(agent); err != nil {
		return err
	}
	if r.Window != nil {
		r.ports.Window = r.Window(agent)
	}
	return r.lend(ctx, agent)
}

// lend gives the step the tools of an agent.
func (r *stepRun) lend(ctx context.Context, agent config.Agent) error {
	if err := r.equipped(ctx, agent); err != nil {
		return err
	}
	r.ports.Tools = func(ctx context.Context, workspace string) (step.Tools, error) { return r.Tools(ctx, agent, workspace) }
	return nil
}

// member is the step of the launch. However little it may be told, people can
// always be heard.
func (r *stepRun) member(in StepInput, t config.Team, agent config.Agent, query string, criteria config.Criteria) team.Step {
	m := team.Step{
		Layout: artifact.InBucket(in.Session), Launch: in.Launch, Token: r.token, Attempt: r.attempt, Spent: r.result.Usage,
		Query: query, SystemMessage: agent.SystemMessage, Criteria: team.CriteriaOf(criteria),
		Files: agent.Tools.Files || agent.Tools.Shell, Window: r.ports.Window, Settings: team.SettingsOf(t),
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
	// What the journal keeps is not done again, so the attempt was of use; replies
	// of no use and refusals are kept, too, and are none.
	fruitful := p.Kept > 0 && p.Last != loop.Wasted && p.Last != loop.Refused
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
	o, err := team.ReadOutcome(r.result.Commit)
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
