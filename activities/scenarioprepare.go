package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/scenario"
)

// PrepareScenario checks everything that can be wrong with the team, claims the run
// for this workflow, keeps the definition as it is now, gives the run its number,
// and writes that it runs.
func (a *Activities) PrepareScenario(ctx context.Context, in PrepareScenarioInput) (PreparedScenario, error) {
	defer pulse(ctx)()
	layout := artifact.InScenario(in.Plan.Slug, in.RunID)
	if in.Resume {
		return a.resumeScenario(ctx, layout, in)
	}
	team, err := a.tester(ctx, in)
	if err != nil {
		return PreparedScenario{}, err
	}
	if err := a.findPRD(ctx, layout, in); err != nil {
		return PreparedScenario{}, err
	}
	claim, fresh, err := a.claimRun(ctx, layout, 1, in, ScenarioClaim{ConfigHash: team.Hash()})
	if err != nil {
		return PreparedScenario{}, err
	}
	if err := a.keepDefinition(ctx, layout, in); err != nil {
		return PreparedScenario{}, err
	}
	if err := a.keepTeam(ctx, layout, team); err != nil {
		return PreparedScenario{}, err
	}
	p := a.preparedScenario(layout, in.Plan, team, 1)
	p.StartedAt = claim.ClaimedAt
	if p.RunNumber, err = a.runNumber(ctx, in, fresh); err != nil {
		return PreparedScenario{}, err
	}
	return p, a.begin(ctx, layout, in, p)
}

// preparedScenario is what is known of a run by its definition.
func (a *Activities) preparedScenario(layout artifact.Layout, plan scenario.Plan, team config.Team, execution int) PreparedScenario {
	return PreparedScenario{
		Protocol: scenario.Protocol, ConfigHash: team.Hash(), Plan: plan, Execution: execution,
		URL: a.Store.URL(layout.File("result.json")), Offline: team.Agents[0].Backend.Type == config.Offline,
	}
}

// begin writes that the run is under way.
func (a *Activities) begin(ctx context.Context, layout artifact.Layout, in PrepareScenarioInput, p PreparedScenario) error {
	result := ScenarioResult{
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

func (a *Activities) writeResult(ctx context.Context, layout artifact.Layout, r ScenarioResult) error {
	if err := artifact.PutJSON(ctx, a.Store, layout.File("result.json"), r); err != nil {
		return fmt.Errorf("writing result.json of run %s: %w", r.RunID, err)
	}
	return nil
}

// tester resolves the team of one agent, and checks it as a session's is.
func (a *Activities) tester(ctx context.Context, in PrepareScenarioInput) (config.Team, error) {
	team, err := a.resolve(PrepareInput{Team: in.Team, Config: in.Config})
	if err != nil {
		return team, invalid(err)
	}
	return team, a.checkTester(ctx, team)
}

func (a *Activities) checkTester(ctx context.Context, team config.Team) error {
	if err := CheckTester(team); err != nil {
		return invalid(err)
	}
	return a.check(ctx, team)
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
		return invalid(err)
	}
	if err := a.Store.Put(ctx, layout.File("config.json"), bytes.NewReader(canonical)); err != nil {
		return fmt.Errorf("keeping the team of a run: %w", err)
	}
	return nil
}

// resumeScenario goes on with a run that is over, or whose workflow is.
func (a *Activities) resumeScenario(ctx context.Context, layout artifact.Layout, in PrepareScenarioInput) (PreparedScenario, error) {
	last, number, err := a.lastClaim(ctx, layout)
	if err != nil {
		return PreparedScenario{}, err
	}
	if number == 0 {
		return PreparedScenario{}, invalid(fmt.Errorf("there is no run %s of scenario %s to resume", in.RunID, in.Plan.Slug))
	}
	plan, err := artifact.ReadJSON[scenario.Plan](ctx, a.Store, layout.File("definition/meta.json"))
	if err != nil {
		return PreparedScenario{}, unresumable(in, err)
	}
	team, err := a.resumedTester(ctx, layout, last.ConfigHash, in)
	if err != nil {
		return PreparedScenario{}, err
	}
	before := last.Before
	if !last.of(in) || before == nil { // else this is another attempt of ours
		if before, err = a.resumable(ctx, layout, last, number, in); err != nil {
			return PreparedScenario{}, err
		}
		number++
	}
	if _, _, err := a.claimRun(ctx, layout, number, in, ScenarioClaim{ConfigHash: team.Hash(), Before: before}); err != nil {
		return PreparedScenario{}, err
	}
	if err := a.keepTeam(ctx, layout, team); err != nil {
		return PreparedScenario{}, err
	}
	p := a.preparedScenario(layout, plan, team, number)
	p.RunNumber, p.StartedAt, p.WorkedMS = before.RunNumber, before.StartedAt, before.DurationMS
	if err := a.goOn(ctx, layout, &p, *before); err != nil {
		return PreparedScenario{}, err
	}
	if p.Events, err = a.scenarioEvents(ctx, layout); err != nil {
		return PreparedScenario{}, err
	}
	return p, a.begin(ctx, layout, in, p)
}

// unresumable tells a run that is not whole from a store that is away.
func unresumable(in PrepareScenarioInput, err error) error {
	var malformed *artifact.MalformedError
	if errors.Is(err, artifact.ErrNotFound) || errors.As(err, &malformed) {
		return invalid(fmt.Errorf("run %s of scenario %s had hardly begun and cannot be gone on with: start a new one (%w)", in.RunID, in.Plan.Slug, err))
	}
	return fmt.Errorf("reading run %s: %w", in.RunID, err)
}

// resumedTester is the team that is given, else the one that the run had.
func (a *Activities) resumedTester(ctx context.Context, layout artifact.Layout, hash string, in PrepareScenarioInput) (config.Team, error) {
	if in.Team != "" || len(in.Config) > 0 && string(in.Config) != "null" {
		return a.tester(ctx, in)
	}
	team, err := a.Teams.byHash(ctx, a.Store, layout, hash)
	if err != nil {
		return team, err
	}
	return team, a.checkTester(ctx, team)
}

// resumable reads what the run has come to, and refuses one that has passed, or
// that goes on elsewhere. A workflow with the same ID as its owner's shows that the
// owner is gone: there is never more than one of an ID.
func (a *Activities) resumable(ctx context.Context, layout artifact.Layout, last ScenarioClaim, number int, in PrepareScenarioInput) (*ScenarioResult, error) {
	r, err := artifact.ReadJSON[ScenarioResult](ctx, a.Store, layout.File("result.json"))
	if err != nil {
		return nil, unresumable(in, err)
	}
	over := r.Status != scenario.Running && r.Execution == number
	switch {
	case over && r.Status == scenario.Pass:
		return nil, invalid(fmt.Errorf("run %s of scenario %s has passed: there is nothing to resume", in.RunID, in.Plan.Slug))
	case !over && last.WorkflowID != in.WorkflowID:
		return nil, taken("run %s of scenario %s is not over: it belongs to workflow %s; cancel that, or, if it was terminated, resume under its ID",
			in.RunID, in.Plan.Slug, last.WorkflowID)
	}
	return &r, nil
}

// goOn finds where a run is gone on with. A step without a verdict goes on with its
// journal, if it has one; one that is made anew begins without evidence.
func (a *Activities) goOn(ctx context.Context, layout artifact.Layout, p *PreparedScenario, before ScenarioResult) error {
	for i, s := range p.Plan.Steps {
		if i < len(before.Steps) && before.Steps[i].ID == s.ID && before.Steps[i].Status == scenario.Pass {
			p.Earlier = append(p.Earlier, before.Steps[i])
			continue
		}
		var was scenario.Result
		if i < len(before.Steps) {
			was = before.Steps[i]
		}
		p.Spent = was.Cost
		if was.Status != scenario.Fail {
			var err error
			if p.Rest, err = a.rest(ctx, layout, s.ID); err != nil {
				return err
			}
		}
		if p.Rest != "" {
			p.SpentMS = was.DurationMS
			return nil
		}
		return a.setAside(ctx, layout, s.ID, before.Execution)
	}
	return nil
}

// rest is the execution token of a step that was cut off, which has left a journal;
// empty if there is none, or if it has come to a verdict since.
func (a *Activities) rest(ctx context.Context, layout artifact.Layout, step string) (string, error) {
	var tokens []string
	for n := 1; ; n++ {
		c, err := artifact.ReadJSON[artifact.Claim](ctx, a.Store, layout.Trial(step, n, "step.json"))
		if errors.Is(err, artifact.ErrNotFound) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("looking for where step %s was cut off: %w", step, err)
		}
		tokens = append(tokens, c.Token)
	}
	for n := len(tokens); n > 0; n-- {
		committed, err := a.Store.Exists(ctx, layout.Trial(step, n, "action.json"))
		if err != nil || committed {
			return "", err
		}
		if there, err := a.Store.Exists(ctx, layout.Journal(tokens[n-1], 1)); err != nil || there {
			return tokens[n-1], err
		}
	}
	return "", nil
}

// setAside moves the evidence of a verdict that is made anew out of the way.
func (a *Activities) setAside(ctx context.Context, layout artifact.Layout, step string, execution int) error {
	prefix := layout.Evidence(step, "")
	var keys []string
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("setting the evidence of step %s aside: %w", step, err)
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		aside := layout.File(fmt.Sprintf("earlier/%03d/%s", execution, evidencePath(step, key[len(prefix):])))
		err := a.Store.Copy(ctx, key, aside)
		if err == nil {
			err = a.Store.Delete(ctx, key)
		}
		if err != nil {
			return fmt.Errorf("setting the evidence of step %s aside: %w", step, err)
		}
	}
	return nil
}
