package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/scenario"
)

// PrepareScenario validates the team and the definition, claims the run for this workflow, stores
// the definition, assigns the run's number, and writes the first result.json.
func (a *Activities) PrepareScenario(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	if in.Resume && in.RunID == "" {
		claimed, err := activities.ClaimedBy(ctx, a.Store, in.WorkflowID)
		if err != nil {
			return Prepared{}, err
		}
		if claimed.Scenario == "" {
			return Prepared{}, activities.Invalid(fmt.Errorf("workflow %s has no run of a scenario to resume: give plan.slug and run_id, or start a new run", in.WorkflowID))
		}
		in.RunID, in.Plan.Slug = claimed.ID, claimed.Scenario
	}
	layout := artifact.InScenario(in.Plan.Slug, in.RunID)
	if err := activities.RefuseDeleted(ctx, a.Store, layout, fmt.Sprintf("run %s of scenario %s", in.RunID, in.Plan.Slug)); err != nil {
		return Prepared{}, err
	}
	if in.Resume {
		return a.resume(ctx, layout, in)
	}
	team, err := a.tester(ctx, layout, in, "")
	if err != nil {
		return Prepared{}, err
	}
	if err := a.checkPrice(team, in.Plan); err != nil {
		return Prepared{}, err
	}
	if err := a.checkDefinition(ctx, layout, in); err != nil {
		return Prepared{}, err
	}
	claim, created, err := a.claimRun(ctx, layout, 1, in, claim{ConfigHash: team.Hash(), StepTimeoutSeconds: in.StepTimeoutSeconds})
	if err != nil {
		return Prepared{}, err
	}
	if err := a.keepDefinition(ctx, layout, in); err != nil {
		return Prepared{}, err
	}
	p := Prepared{
		RunID: in.RunID, Plan: in.Plan, Execution: 1,
		StartedAt: claim.ClaimedAt, StepTimeoutSeconds: in.StepTimeoutSeconds, Attributes: a.Attributes(ctx),
	}
	if p.RunNumber, err = a.runNumber(ctx, in, created); err != nil {
		return Prepared{}, err
	}
	return a.begin(ctx, layout, p, team)
}

// begin stores the team, completes the prepared run, and writes a result with status running.
func (a *Activities) begin(ctx context.Context, layout artifact.Layout, p Prepared, team config.Team) (Prepared, error) {
	canonical, err := team.Canonical()
	if err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if err := a.Store.Put(ctx, layout.File("config.json"), bytes.NewReader(canonical)); err != nil {
		return Prepared{}, err
	}
	p.ConfigHash = team.Hash()
	p.HeartbeatTimeoutSeconds = int(a.HeartbeatTimeout / time.Second)
	p.URL, p.Offline = a.Store.URL(layout.File("result.json")), team.Agents[0].Backend.Type == config.Offline
	core := scenario.New(p.Plan, p.Earlier)
	result := Result{
		RunID: p.RunID, RunNumber: p.RunNumber, RunPath: RunPath(p.Plan.Slug, p.RunID), Scenario: p.Plan.Slug, Title: p.Plan.Title, Status: scenario.Running,
		Only: p.Plan.Only, StartedAt: p.StartedAt, DurationMS: p.WorkedMS, Steps: core.Results, Cost: core.Usage, Execution: p.Execution,
	}
	return p, artifact.PutJSON(ctx, a.Store, layout.File("result.json"), result)
}

// RunPath returns the directory of a run, relative to the project or to the store.
func RunPath(slug, run string) string {
	return strings.TrimSuffix(artifact.InScenario(slug, run).Root(), "/")
}

// checkPrice returns an error if limits.cost_usd is set and the price of the model is unknown.
func (a *Activities) checkPrice(team config.Team, plan scenario.Plan) error {
	limited := plan.Limits.CostUSD > 0
	for _, s := range plan.All() {
		limited = limited || s.Limits.CostUSD > 0
	}
	if !limited || a.Priced != nil && a.Priced(team.Agents[0]) {
		return nil
	}
	return activities.Invalid(fmt.Errorf("scenario %s limits cost_usd, but the price of the model %s is unknown; "+
		"name a provider with a price_per_million in the worker configuration, or limit model_calls instead", plan.Slug, team.Agents[0].Backend.Model))
}

// tester returns the team of the input or, if it has none, the team of the resumed run, whose hash
// is given. It returns an error for a team that cannot run a scenario on this worker.
func (a *Activities) tester(ctx context.Context, layout artifact.Layout, in PrepareInput, hash string) (team config.Team, err error) {
	if hash != "" && in.Team == "" && !activities.Given(in.Config) {
		if team, err = a.Teams.ByHash(ctx, a.Store, layout, hash); err != nil {
			return team, err
		}
	} else if team, err = a.Teams.Resolve(in.Team, in.Config); err != nil {
		if in.Team != "" && !activities.Given(in.Config) {
			return team, a.Unknown(ctx, err)
		}
		return team, activities.Invalid(err)
	}
	if err := CheckTester(team); err != nil {
		return team, activities.Invalid(err)
	}
	return team, a.Check(ctx, team, false)
}

// CheckTester returns an error for a team that cannot run a scenario: one with several agents, or
// with a budget, because budgets are enforced only in sessions.
func CheckTester(team config.Team) error {
	budget, key := team.Orchestrator.Budget, "max_total_tokens"
	switch n := len(team.Agents); {
	case n != 1:
		return fmt.Errorf("the team has %d agents: give a team of one agent, which runs every step", n)
	case budget.MaxCostUSD != nil:
		key = "max_cost_usd"
	case budget.MaxTotalTokens == nil:
		return nil
	}
	return fmt.Errorf("orchestrator.budget.%s is set: budgets are enforced only in sessions, not in scenarios; leave it out (--step-timeout, or step_timeout_seconds, bounds each step)", key)
}

// claim is claims/<NNN>.json, with which a workflow that starts or resumes the run becomes its
// owner.
type claim struct {
	artifact.Owner
	ConfigHash string    `json:"config_hash"`
	ClaimedAt  time.Time `json:"claimed_at"`

	// StepTimeoutSeconds bounds the time of each step; 0 means the default.
	StepTimeoutSeconds int `json:"step_timeout_seconds,omitempty"`

	// Seed is the seed of the vault of credentials. Only the first claim has one.
	Seed string `json:"seed,omitempty"`

	// Before is the result at the time the run was resumed; nil in the first claim.
	Before *Result `json:"before,omitempty"`
}

func claimOf(layout artifact.Layout, number int) string {
	return layout.File(fmt.Sprintf("claims/%03d.json", number))
}

// claimRun creates a claim, or returns the claim that the same workflow made earlier.
func (a *Activities) claimRun(ctx context.Context, layout artifact.Layout, number int, in PrepareInput, c claim) (made claim, created bool, err error) {
	c.Owner, c.ClaimedAt = in.Owner, artifact.Timestamp(a.Now())
	if number == 1 {
		c.Seed = rand.Text()
	}
	made, created, err = activities.Claim(ctx, a.Store, claimOf(layout, number), c,
		fmt.Sprintf("run %s of scenario %s", in.RunID, in.Plan.Slug), "choose another run_id, or resume it once it is over")
	if err == nil {
		err = activities.Claimed{WorkflowID: in.WorkflowID, ID: in.RunID, Scenario: in.Plan.Slug}.Keep(ctx, a.Store)
	}
	return made, created, err
}

// runNumber assigns the lowest number above all numbers of the scenario and above In.After to the
// run, or returns the number that it already has. Numbers of deleted runs are not reused.
func (a *Activities) runNumber(ctx context.Context, in PrepareInput, created bool) (int, error) {
	prefix := "scenarios/" + in.Plan.Slug + "/numbers/"
	highest := in.After
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(path.Base(key))
		if err != nil || n < 1 || strings.Contains(strings.TrimPrefix(key, prefix), "/") {
			continue
		}
		highest = max(highest, n)
		if created { // the run has no number yet
			continue
		}
		if owner, err := a.Store.Get(ctx, key); err != nil || string(owner) == in.RunID {
			return n, err
		}
	}
	for n := highest + 1; ; n++ {
		key := prefix + strconv.Itoa(n)
		err := a.Store.Create(ctx, key, []byte(in.RunID))
		if err == nil || !errors.Is(err, artifact.ErrExists) {
			return n, err
		}
		if owner, err := a.Store.Get(ctx, key); err == nil && string(owner) == in.RunID {
			return n, nil // the response of Create was lost
		}
	}
}
