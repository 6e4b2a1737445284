package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/engine/team"
)

// RunStep runs one step of an agent, or returns the result of its commit. An error is either final,
// with an attempt.Failure in its details, or is retried on any worker. The step's number, claim and
// usage are kept between attempts.
func (a *Activities) RunStep(ctx context.Context, in StepInput) (StepResult, error) {
	return attempt.Run(ctx, a.Process, string(in.Launch.ID), func(ctx context.Context, run *attempt.Attempt) (r StepResult, err error) {
		defer func() { r.LongestCall = run.Failure().LongestCall }()
		ended, err := run.Perform(ctx, func(ctx context.Context) error { return a.assemble(ctx, run, in) })
		switch {
		case err != nil:
			return StepResult{}, err
		case ended != nil && ended.Calls != nil:
			return a.awaiting(ctx, run, in.Session, ended.Calls)
		case ended != nil:
			run.KeepTranscript(ctx)
			return StepResult{
				Token: run.Token, Step: run.Result.Step, Ended: ended.Why, Usage: run.Result.Usage, Outcome: team.Outcome{Seen: run.Seen()},
			}, nil
		}
		return a.result(ctx, run, in)
	})
}

// assemble reads the team, the query, earlier turns and criteria, and equips the step's agent.
func (a *Activities) assemble(ctx context.Context, run *attempt.Attempt, in StepInput) error {
	layout := artifact.InBucket(in.Session)
	store := a.memories.over(ctx, run.Ports.Store)
	run.Ports.Store = store
	t, err := a.Teams.ByHash(ctx, store, layout, in.ConfigHash)
	if err != nil {
		return err
	}
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, layout.File("session.json"))
	if err != nil {
		return err
	}
	criteria, err := readCriteria(ctx, store, layout, t, session)
	if err != nil {
		return err
	}
	turns, err := team.ReadTurns(ctx, store, layout, session)
	if err != nil {
		return err
	}
	t, drafts, err := team.ReadDrafts(ctx, store, layout, t, in.Launch.Agent)
	if err != nil {
		return err
	}
	agent, ok := t.Agent(in.Launch.Agent)
	if !ok {
		return activities.Invalid(fmt.Errorf("the team has no agent %s", in.Launch.Agent))
	}
	if len(drafts.Criteria) > 0 && len(criteria) == 0 {
		criteria = drafts.Criteria
	}
	if in.Launch.Purpose == coordination.Evaluation {
		agent = t.EvaluatorOf(agent)
	}
	run.Depth = session.Depth
	if run.Ports.Caller, err = callerTools(store, in, session.Caller); err != nil {
		return err
	}
	run.Parks = true
	run.LimitOutages(time.Duration(t.Timeouts.OutageSeconds)*time.Second, in.Launch.AwaySince)
	run.ReportOutages(in.Launch, time.Duration(t.Timeouts.AwaySeconds)*time.Second)
	if err := run.Equip(ctx, agent); err != nil {
		return err
	}
	m := newStep(run, in, t, agent)
	if m.Layout, err = activities.Start(ctx, a.Bases(), layout, session.Material); err != nil {
		return err
	}
	if m.Contexts, err = activities.Contexts(ctx, a.Bases(), session.Material); err != nil {
		return err
	}
	m.Query, m.Secret, m.Criteria, m.Turns, m.Persona = session.Query, session.FirstRunID, criteria, turns, drafts.Persona
	m.Instructions = session.Instructions
	run.Spec, err = m.Spec(ctx, store)
	run.Spec.KeepsJournal = true // Record deletes all of the session
	return err
}

// criteriaFile contains the evaluation criteria of a session.
const criteriaFile = "eval_criteria.json"

// readCriteria reads the session's evaluation criteria, if any. They were given with the query or
// made by a model.
func readCriteria(ctx context.Context, store artifact.Store, layout artifact.Layout, t config.Team, session artifact.Session) (config.Criteria, error) {
	given := session.Criteria == nil || *session.Criteria
	if !given && !t.Orchestrator.Coordination.EvaluationCriteriaGenerator.Enabled {
		return nil, nil
	}
	data, err := store.Get(ctx, layout.File(criteriaFile))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parsed, err := config.ParseCriteria(criteriaFile, data)
	if err != nil {
		return nil, activities.Invalid(err)
	}
	return parsed, nil
}

// newStep returns the step of a launch. It receives human messages even if updates from peers are
// disabled.
func newStep(run *attempt.Attempt, in StepInput, t config.Team, agent config.Agent) team.Step {
	m := team.Step{
		Layout: artifact.InBucket(in.Session), Launch: in.Launch, Token: run.Token, Attempt: run.Number, Spent: run.Result.Usage,
		SystemMessage: agent.SystemMessage,
		Files:         agent.Tools.Files || agent.Tools.Shell, Window: run.Ports.Window, Team: t, Bell: run.Look,
		Scratch: run.Ports.Scratch,
	}
	for _, a := range t.Agents {
		m.Agents = append(m.Agents, a.ID)
	}
	return m
}

// result converts the commit for the workflow.
func (a *Activities) result(ctx context.Context, run *attempt.Attempt, in StepInput) (StepResult, error) {
	outcome, err := team.ReadOutcome(run.Result.Commit)
	if err != nil {
		return StepResult{}, activities.Invalid(err)
	}
	r := StepResult{
		Token: run.Token, Step: run.Result.Step, Outcome: outcome, Files: run.Result.Files, Usage: run.Result.Usage,
	}
	if in.Checks && outcome.Action == coordination.NewAnswer {
		err = a.keepChecks(ctx, in.Session, run.Result.Commit, &r)
	}
	if err == nil && outcome.Action == coordination.NewAnswer && in.Launch.Purpose == "" {
		if err = a.findEqual(ctx, in, run.Result.Commit, &r); err != nil {
			return StepResult{}, run.Error(err)
		}
	}
	return r, err
}

// awaiting returns the result of a step that waits for the caller. The step's journal is kept.
func (a *Activities) awaiting(ctx context.Context, run *attempt.Attempt, session string, awaited []loop.AwaitedCall) (StepResult, error) {
	calls, err := callsOf(ctx, a.Store, session, awaited)
	if err != nil {
		return StepResult{}, run.Error(err)
	}
	run.Leave(ctx)
	return StepResult{Token: run.Token, Step: run.Result.Step, Ended: loop.EndAwaiting, Calls: calls, Usage: run.Result.Usage}, nil
}
