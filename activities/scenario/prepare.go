package scenario

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/worker"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
)

// PrepareScenario validates the team and the definition, claims the run for this workflow, stores
// the definition, assigns the run's number, and writes the first result.json.
func (a *Activities) PrepareScenario(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	p, err := a.prepareScenario(ctx, activities.FenceStore(ctx, a.Store, a), in)
	return p, a.Tellable(err)
}

// prepareScenario replaces documents in the store alone, which is fenced.
func (a *Activities) prepareScenario(ctx context.Context, store artifact.Store, in PrepareInput) (Prepared, error) {
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
		return a.resumeRun(ctx, store, layout, in)
	}
	team, err := a.resolveTester(ctx, layout, in, "")
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
	return a.beginRun(ctx, store, layout, p, team)
}

// beginRun stores the team, completes the prepared run, and writes a result with status running.
func (a *Activities) beginRun(ctx context.Context, store artifact.Store, layout artifact.Layout, p Prepared, team config.Team) (Prepared, error) {
	canonical, err := team.Canonical()
	if err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if err := store.Put(ctx, layout.File("config.json"), bytes.NewReader(canonical)); err != nil {
		return Prepared{}, err
	}
	p.ConfigHash, p.Notify = team.Hash(), a.Receivers
	p.HeartbeatTimeoutSeconds = int(a.HeartbeatTimeout / time.Second)
	p.URL, p.Offline = a.Store.URL(layout.File("result.json")), team.Agents[0].Backend.Type == config.Offline
	core := scenario.New(p.Plan, p.Earlier)
	result := Result{
		RunID: p.RunID, RunNumber: p.RunNumber, RunPath: RunPath(p.Plan.Slug, p.RunID), Scenario: p.Plan.Slug, Title: p.Plan.Title, Status: scenario.Running,
		Only: p.Plan.Only, StartedAt: p.StartedAt, DurationMS: p.WorkedMS, Steps: core.Results, Cost: core.Usage, Execution: p.Execution,
	}
	return p, artifact.PutJSON(ctx, store, layout.File("result.json"), result)
}

// RunPath returns the directory of a run, relative to the project or to the store.
func RunPath(slug, run string) string {
	return strings.TrimSuffix(artifact.InScenario(slug, run).Root(), "/")
}

func (a *Activities) checkPrice(team config.Team, plan scenario.Plan) error {
	limited := plan.Limits.CostUSD > 0
	for _, s := range plan.All() {
		limited = limited || s.Limits.CostUSD > 0
	}
	if !limited || a.Priced(team.Agents[0]) {
		return nil
	}
	return activities.Invalid(fmt.Errorf("scenario %s limits cost_usd, but the price of the model %s is unknown; "+
		"name a provider with a price_per_million in the worker configuration, or limit model_calls instead", plan.Slug, team.Agents[0].Backend.Model))
}

// resolveTester returns the team of the input or, if it has none, the team of the resumed run, whose hash
// is given. It returns an error for a team that cannot run a scenario on this worker.
func (a *Activities) resolveTester(ctx context.Context, layout artifact.Layout, in PrepareInput, hash string) (team config.Team, err error) {
	if hash != "" && in.Team == "" && !activities.Given(in.Config) {
		if team, err = a.Teams.ByHash(ctx, a.Store, layout, hash); err != nil {
			return team, err
		}
	} else if team, err = a.Teams.Resolve(in.Team, in.Config); err != nil {
		if in.Team != "" && !activities.Given(in.Config) {
			return team, activities.UnknownName(ctx, a, err)
		}
		return team, activities.Invalid(err)
	}
	if err := CheckTester(team); err != nil {
		return team, activities.Invalid(err)
	}
	return team, activities.CheckTeam(ctx, a, a, team, false)
}

// CheckTester returns an error for a team that cannot run a scenario: one with several agents, or
// with a budget, because budgets are enforced only in sessions.
func CheckTester(team config.Team) error {
	budget, key := team.Orchestrator.Budget, "max_total_tokens"
	switch n := len(team.Agents); {
	case n != 1:
		return fmt.Errorf("the team has %d agents: give a team of one agent, which runs every step", n)
	case team.AsksPerson() != "":
		return fmt.Errorf("%s is set: a scenario's step cannot wait for a person; use allow or deny", team.AsksPerson())
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

// Activities has the activities of scenarios. Those for bookkeeping need only Store and Now.
type Activities struct {
	attempt.Process

	// ReadFile reads a file of a workspace with up to most bytes, subject to the checks of the
	// agent's tools. If these refuse the file, objection is the answer for the agent.
	ReadFile func(workspace, name string, most int64) (content []byte, objection string, err error)
}

// RegisterSteps registers the activities that need teams, models and keys.
func (a *Activities) RegisterSteps(r worker.ActivityRegistry) {
	r.RegisterActivity(a.PrepareScenario)
	r.RegisterActivity(a.RunScenarioStep)
}

// RegisterBookkeeping registers the activities that need only the store.
func (a *Activities) RegisterBookkeeping(r worker.ActivityRegistry) {
	r.RegisterActivity(a.RecordScenario)
	r.RegisterActivity(a.ReckonScenarioStep)
}

// PrepareInput is the input of a run.
type PrepareInput struct {
	RunID string `json:"run_id"`
	artifact.Owner

	Plan    scenario.Plan     `json:"plan"`
	Files   map[string]string `json:"files,omitempty"` // contents of the steps' files, by name
	PRD     string            `json:"prd,omitempty"`
	PRDHash string            `json:"prd_sha256,omitempty"` // hash of the prd.md stored at PRDKey, instead of PRD

	After int `json:"after,omitempty"` // lower bound of the run's number, exclusive

	Team   string          `json:"team,omitempty"` // registered or the operator's
	Config json.RawMessage `json:"config,omitempty"`

	// Resume continues the run with RunID and its Files and PRD. Its team is kept unless the input
	// has another.
	Resume bool `json:"resume,omitempty"`

	// StepTimeoutSeconds bounds the time of each step. 0 means the previous value for a resumed
	// run, and the default otherwise.
	StepTimeoutSeconds int `json:"step_timeout_seconds,omitempty"`
}

// Prepared is the part of a run that the workflow needs to start.
type Prepared struct {
	RunID      string        `json:"run_id"`
	ConfigHash string        `json:"config_hash"`
	Plan       scenario.Plan `json:"plan"`
	RunNumber  int           `json:"run_number"`
	Execution  int           `json:"execution"` // number among the run's workflows, from 1
	StartedAt  time.Time     `json:"started_at"`

	StepTimeoutSeconds int `json:"step_timeout_seconds,omitempty"` // 0 for the default

	// Attributes lists the search attributes that exist in the run's namespace.
	Attributes []string `json:"attributes,omitempty"`

	// Notify lists the receivers that are told of the run.
	Notify []activities.Receiver `json:"notify,omitempty"`

	// Earlier and WorkedMS are the results and the working time of a resumed run until now; Events
	// and Messages are the numbers of those on record.
	Earlier  []scenario.Result `json:"earlier,omitempty"`
	WorkedMS int64             `json:"worked_ms,omitempty"`
	Events   int               `json:"events,omitempty"`
	Messages int               `json:"messages,omitempty"`

	// Rest is the execution token of the commit or journal from which the step RestStep continues;
	// empty if the step starts from the beginning. SpentMS is its working time until now.
	// Unrecorded is true if no result includes the usage in that journal.
	Rest       string `json:"rest,omitempty"`
	RestStep   string `json:"rest_step,omitempty"`
	SpentMS    int64  `json:"spent_ms,omitempty"`
	Unrecorded bool   `json:"unrecorded,omitempty"`

	// Open lists later steps that have begun but have no recorded result.
	Open []scenario.OpenStep `json:"open,omitempty"`

	// HeartbeatTimeoutSeconds is the heartbeat timeout of the steps; 0 means
	// attempt.HeartbeatTimeout.
	HeartbeatTimeoutSeconds int `json:"heartbeat_timeout_seconds,omitempty"`

	URL     string `json:"url"`               // URL of result.json, for people
	Offline bool   `json:"offline,omitempty"` // the built-in model plays the agent
}

// StepInput describes one launch. The activity reads large values from the run's directory.
type StepInput struct {
	Scenario       string          `json:"scenario"` // the scenario's slug
	Run            string          `json:"run"`
	ConfigHash     string          `json:"config_hash"`
	Launch         scenario.Launch `json:"launch"`
	TimeoutSeconds int             `json:"timeout_seconds"`
}

// StepResult is the outcome of a step. It consists of paths and short text.
type StepResult struct {
	Token    string          `json:"token"`
	Number   int             `json:"number"` // number among the step's launches
	Status   scenario.Status `json:"status"`
	Evidence []string        `json:"evidence"` // paths, as in result.json
	Error    *string         `json:"error,omitempty"`
	Summary  string          `json:"summary,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	Usage    llm.Usage       `json:"usage"`

	// Host is the task queue of the process whose browser the next step shares; empty if there is
	// none.
	Host string `json:"host,omitempty"`
}

// Result is the content of result.json and the result of the workflow.
type Result struct {
	RunID     string          `json:"run_id"`
	RunNumber int             `json:"run_number"`
	RunPath   string          `json:"run_path"` // relative to the project or the store
	Scenario  string          `json:"scenario"` // the scenario's slug
	Title     string          `json:"title"`
	Status    scenario.Status `json:"status"`         // running, pass, fail or cancelled
	Paused    bool            `json:"paused"`         // whether a person has paused the run
	Only      []string        `json:"only,omitempty"` // ids of the steps of a partial run

	StartedAt   time.Time  `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"` // null while it runs
	DurationMS  int64      `json:"duration_ms"`  // working time of all its workflows

	Steps      []scenario.Result `json:"steps"`       // ended steps, in order: before, steps, after
	FailedStep *string           `json:"failed_step"` // the first that did not pass; null for none
	Error      *string           `json:"error"`       // error of FailedStep

	Cost      llm.Usage `json:"cost"`
	Execution int       `json:"execution"` // number among the run's workflows, from 1
}

// State is a summary of a run: the answer to the state query.
type State struct {
	Result

	Step string             `json:"step,omitempty"` // id of the running one
	Plan []scenario.StepRef `json:"plan"`           // all steps of the run

	// Ignored describes the last signal if it could not be decoded. A later valid request clears
	// it.
	Ignored string `json:"ignored,omitempty"`
}

// Event is an entry of events.jsonl.
type Event struct {
	Seq  int       `json:"seq"` // number of the event, from 1
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // started, step_started, step_ended, suspended, paused, resumed, said, ignored, cancelled, ended
	Step string    `json:"step,omitempty"`
	Text string    `json:"text"`
}

// RecordInput is the current state of a run.
type RecordInput struct {
	Result Result  `json:"result"`           // Steps continue the recorded ones
	Kept   int     `json:"kept,omitempty"`   // number of recorded steps
	Events []Event `json:"events,omitempty"` // events since the last record

	Messages []scenario.Keep `json:"messages,omitempty"` // messages of people since the last record
}

// Recorded lists the stored evidence of steps without a verdict, by step ID.
type Recorded struct {
	Evidence map[string][]string `json:"evidence,omitempty"`
}
