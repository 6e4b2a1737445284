package scenario

import (
	"bytes"
	"context"
	"fmt"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/scenario"
)

// PrepareScenario checks everything that can be wrong with the team, claims the run
// for this workflow, keeps the definition as it is now, gives the run its number,
// and writes that it runs.
func (a *Activities) PrepareScenario(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	layout := artifact.InScenario(in.Plan.Slug, in.RunID)
	if in.Resume {
		return a.resume(ctx, layout, in)
	}
	team, err := a.tester(ctx, in)
	if err != nil {
		return Prepared{}, err
	}
	if err := a.checkDefinition(ctx, layout, in); err != nil {
		return Prepared{}, err
	}
	claim, fresh, err := a.claimRun(ctx, layout, 1, in, claim{ConfigHash: team.Hash()})
	if err != nil {
		return Prepared{}, err
	}
	if err := a.keepDefinition(ctx, layout, in); err != nil {
		return Prepared{}, err
	}
	if err := a.keepTeam(ctx, layout, team); err != nil {
		return Prepared{}, err
	}
	p := a.prepared(layout, in.Plan, team, 1)
	p.StartedAt = claim.ClaimedAt
	if p.RunNumber, err = a.runNumber(ctx, in, fresh); err != nil {
		return Prepared{}, err
	}
	return p, a.begin(ctx, layout, in, p)
}

// prepared is what is known of a run by its definition.
func (a *Activities) prepared(layout artifact.Layout, plan scenario.Plan, team config.Team, execution int) Prepared {
	return Prepared{
		Protocol: scenario.Protocol, ConfigHash: team.Hash(), Plan: plan, Execution: execution,
		URL: a.Store.URL(layout.File("result.json")), Offline: team.Agents[0].Backend.Type == config.Offline,
	}
}

// begin writes that the run is under way.
func (a *Activities) begin(ctx context.Context, layout artifact.Layout, in PrepareInput, p Prepared) error {
	result := Result{
		RunID: in.RunID, RunNumber: p.RunNumber, Scenario: p.Plan.Slug, Title: p.Plan.Title, Status: scenario.Running,
		StartedAt: p.StartedAt, DurationMS: p.WorkedMS, Steps: p.Earlier, Execution: p.Execution,
	}
	if result.Steps == nil {
		result.Steps = []scenario.Result{}
	}
	for _, s := range result.Steps {
		result.Cost = result.Cost.Add(s.Cost)
	}
	return a.writeResult(ctx, layout, result)
}

func (a *Activities) writeResult(ctx context.Context, layout artifact.Layout, r Result) error {
	if err := artifact.PutJSON(ctx, a.Store, layout.File("result.json"), r); err != nil {
		return fmt.Errorf("writing result.json of run %s: %w", r.RunID, err)
	}
	return nil
}

// tester resolves the team of one agent, and checks it as a session's is.
func (a *Activities) tester(ctx context.Context, in PrepareInput) (config.Team, error) {
	team, err := a.Teams.Resolve(in.Team, in.Config)
	if err != nil {
		return team, activities.Invalid(err)
	}
	return team, a.checkTester(ctx, team)
}

func (a *Activities) checkTester(ctx context.Context, team config.Team) error {
	if err := CheckTester(team); err != nil {
		return activities.Invalid(err)
	}
	return a.Check(ctx, team)
}

// CheckTester refuses a team that cannot carry out a scenario: one of several
// agents, and one with a budget, which binds sessions only. A limit that nobody
// keeps is worse than none.
func CheckTester(team config.Team) error {
	budget := team.Orchestrator.Budget
	switch n := len(team.Agents); {
	case n != 1:
		return fmt.Errorf("the team has %d agents: a scenario takes one of exactly one agent, of which every step gets one of its own", n)
	case budget.MaxCostUSD != nil:
		return unbudgeted("max_cost_usd")
	case budget.MaxTotalTokens != nil:
		return unbudgeted("max_total_tokens")
	}
	return nil
}

func unbudgeted(key string) error {
	return fmt.Errorf("orchestrator.budget.%s is set: a budget is that of a session, nothing would hold a scenario to it; leave it out (--step-timeout, or step_timeout_seconds, bounds each step)", key)
}

func (a *Activities) keepTeam(ctx context.Context, layout artifact.Layout, team config.Team) error {
	canonical, err := team.Canonical()
	if err != nil {
		return activities.Invalid(err)
	}
	if err := a.Store.Put(ctx, layout.File("config.json"), bytes.NewReader(canonical)); err != nil {
		return fmt.Errorf("keeping the team of a run: %w", err)
	}
	return nil
}
