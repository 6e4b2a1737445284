package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// Prepare resolves the team, validates the input and claims the session's directory
// for this workflow.
func (a *Activities) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	t, err := a.converse(ctx, &in)
	if err != nil {
		return Prepared{}, err
	}
	if err := a.Check(ctx, t.Within(in.Limits.Seconds, in.Limits.CostUSD), true); err != nil {
		return Prepared{}, err
	}
	if len(in.Criteria) > 0 {
		if _, err := config.ParseCriteria("eval_criteria", in.Criteria); err != nil {
			return Prepared{}, activities.Invalid(err)
		}
	}
	if err := activities.CheckMaterial(ctx, a.Bases(), in.Material); err != nil {
		return Prepared{}, err
	}
	if in.Checks != "" && !t.Orchestrator.RunsChecks() {
		return Prepared{}, activities.Invalid(errors.New("checks: the team does not run them; set orchestrator.ballot to checks_shown, checks_break_ties or checks_decide"))
	}
	layout := artifact.InBucket(in.Session)
	created, err := a.claim(ctx, layout, in, t)
	if err != nil {
		return Prepared{}, err
	}
	if err := activities.UseMaterial(ctx, a.Store, in.Material, a.Now); err != nil {
		return Prepared{}, err
	}
	p := a.prepared(layout, t, in.Limits, in.Caller)
	p.CreatedAt, p.Team, p.Attributes = created, a.teamName(in), a.Attributes(ctx)
	p.Preparations = preparations(t, len(in.Criteria) > 0)
	if in.Checks != "" {
		p.Coordination.Checks, err = a.userChecks(ctx, layout, in.Checks)
	}
	return p, err
}

// teamName returns the name of the operator's team that an input selects, or "" if the input
// defines a team or uses that of an earlier session.
func (a *Activities) teamName(in PrepareInput) string {
	if in.Team == "" && (activities.Given(in.Config) || in.Continues != "") {
		return ""
	}
	name := cmp.Or(in.Team, activities.DefaultTeam)
	if _, named := a.Teams.Named[name]; !named { // a local stack names teams by their hashes
		return ""
	}
	return name
}

// prepared returns the part of a team that the workflow needs, under the limits l and with the
// tools of the caller c. The hash is that of the team without the limits.
func (a *Activities) prepared(layout artifact.Layout, t config.Team, l artifact.Limits, c artifact.Caller) Prepared {
	within := t.Within(l.Seconds, l.CostUSD)
	if len(c.ClientTools) > 0 && c.ClientToolsFor == artifact.ForPresenter && within.Orchestrator.FinalAnswerStrategy == "winner_reuse" {
		within.Orchestrator.FinalAnswerStrategy = "winner_present" // otherwise no step presents a final answer
	}
	p := Prepared{
		ConfigHash:     t.Hash(),
		Coordination:   coordinationConfig(within),
		TimeoutSeconds: within.Timeouts.OrchestratorTimeoutSeconds,
		GraceSeconds:   t.Timeouts.RoundTimeoutGraceSeconds,

		HeartbeatTimeoutSeconds: int(a.HeartbeatTimeout / time.Second),

		URL:     a.Store.URL(layout.File("session.json")),
		Offline: slices.ContainsFunc(t.Agents, func(a config.Agent) bool { return a.Backend.Type == config.Offline }),
	}
	if len(c.ClientTools) > 0 {
		p.Coordination.CallerSeconds = t.Timeouts.ClientToolsTimeoutSeconds
	}
	return p
}

// claim creates the first files of the session and returns the time of its creation. A retry finds
// its own claim; a claim of another workflow is an error.
func (a *Activities) claim(ctx context.Context, layout artifact.Layout, in PrepareInput, t config.Team) (time.Time, error) {
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "session "+in.Session); err != nil {
		return time.Time{}, err
	}
	given := len(in.Criteria) > 0
	made, _, err := activities.Claim(ctx, a.memories.over(ctx, a.Store), layout.File("session.json"), artifact.Session{
		Query: in.Query, ConfigHash: t.Hash(), Owner: in.Owner, CreatedAt: artifact.Timestamp(a.Now()), Material: in.Material,
		Continues: in.Continues, Turns: len(in.History), Checks: in.Checks, Limits: in.Limits,
		Caller: in.Caller, Criteria: &given,
	}, "session "+in.Session, "choose another session ID, or go on with it: give resume instead of a query")
	if err != nil {
		return time.Time{}, err
	}
	canonical, err := t.Canonical()
	if err != nil {
		return time.Time{}, activities.Invalid(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return activities.Claimed{WorkflowID: in.WorkflowID, ID: in.Session}.Keep(ctx, a.Store)
	})
	once := func(key string, document any) {
		group.Go(func() error { return activities.CreateOnce(ctx, a.Store, key, document) })
	}
	once(layout.File("config.json"), json.RawMessage(canonical))
	if len(in.History) > 0 {
		once(layout.File(team.HistoryFile), in.History)
	}
	if len(in.ClientTools) > 0 {
		once(artifact.CallPointer(artifact.SessionHash(in.Session)), artifact.CalledSession{SessionID: in.Session})
	}
	if len(in.Criteria) > 0 {
		once(layout.File(criteriaFile), in.Criteria)
	}
	return made.CreatedAt, group.Wait()
}

// coordinationConfig returns the part of a team's configuration that the protocol needs.
func coordinationConfig(t config.Team) coordination.Config {
	o := t.Orchestrator
	c := coordination.Config{
		OnSplit:          o.OnSplit,
		MaxRevotes:       o.MaxRevotes,
		MaxStepsPerAgent: o.MaxStepsPerAgent,
		OnAgentFailure:   o.OnAgentFailure,
		Mode:             o.CoordinationMode,
		Pacing:           o.Pacing,
		AnswersPerAgent:  value(o.MaxNewAnswersPerAgent),
		AnswersGlobal:    value(o.MaxNewAnswersGlobal),
		DeferVoting:      o.DeferVotingUntilAllAnswered,
		SkipVoting:       o.SkipVoting,
		Strategy:         o.FinalAnswerStrategy,
		SkipPresentation: o.SkipFinalPresentation,
		Presenter:        value(o.PresenterAgent),
		MaxRestarts:      o.MaxOrchestrationRestarts,
		MinActive:        o.MinActiveAgents,
		Critiques:        t.Evaluates(),
		StopAtCeiling:    o.Coordination.StopAtCeiling,
		Secluded:         o.PeerVisibility == "none",
		Solo:             o.AllowSoloRefinement,
		Agree:            o.Agree,
		MaxRounds:        value(o.MaxRounds),
		Ballot:           o.Ballot,
		ShowChecks:       o.ShowChecks,
		Quorum:           o.DecideWhen == "quorum",
		Early:            o.EarlyAgreement,
		MinSupport:       value(o.ActWhen.MinSupport),
		DeferUpdates:     o.DeferPeerUpdatesUntilRestart,
		Budget:           coordination.Allowance{USD: value(o.Budget.MaxCostUSD), Tokens: int64(value(o.Budget.MaxTotalTokens))},
	}
	for _, agent := range t.Agents {
		c.Agents = append(c.Agents, agent.ID)
	}
	if c.Quorum {
		c.QuorumGrace = o.QuorumGraceSeconds
	}
	if o.TeamSize.Start != nil {
		c.Start, c.Grow = *o.TeamSize.Start, o.TeamSize.Step
	}
	if !o.DisableInjection {
		c.Updates = o.UpdateMode
	}
	// BeforeChecklist is only meaningful with checklists.
	c.BeforeChecklist = c.DeferUpdates && value(o.AllowMidstreamPeerUpdatesBeforeChecklistSubmit) && o.VotingSensitivity == team.ChecklistGated
	if o.FairnessEnabled {
		c.LeadCap = &o.FairnessLeadCapAnswers
		c.UpdatesPerStep = o.MaxMidstreamInjectionsPerRound
	}
	return c
}

// value returns *p, or the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		p = new(T)
	}
	return *p
}
