package scenario

import (
	"encoding/json"
	"time"

	"conclave/activities/attempt"
	"conclave/engine/llm"
	"conclave/engine/scenario"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
)

// The registered names of the activities of scenarios. They are in every history.
const (
	PrepareName = "PrepareScenario"
	RunStepName = "RunScenarioStep"
	RecordName  = "RecordScenario"
)

// Activities are the activities of scenarios. Bookkeeping needs only Store and Now.
type Activities struct {
	attempt.Process

	// ReadFile reads a workspace's file of at most so many bytes, as the agent's own
	// tools would; objection is the agent's answer if they would refuse it.
	ReadFile func(workspace, name string, most int64) (content []byte, objection string, err error)
}

// RegisterSteps registers the activities that need teams, models and keys.
func (a *Activities) RegisterSteps(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.PrepareScenario, activity.RegisterOptions{Name: PrepareName})
	r.RegisterActivityWithOptions(a.RunScenarioStep, activity.RegisterOptions{Name: RunStepName})
}

// RegisterBookkeeping registers the activities that need only the store.
func (a *Activities) RegisterBookkeeping(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.RecordScenario, activity.RegisterOptions{Name: RecordName})
}

// PrepareInput is what a run of a scenario was started with.
type PrepareInput struct {
	Protocol   int    `json:"protocol"`
	RunID      string `json:"run_id"`
	WorkflowID string `json:"workflow_id"`
	FirstRunID string `json:"first_run_id"`

	Plan  scenario.Plan     `json:"plan"`
	Files map[string]string `json:"files,omitempty"` // of the steps, by name
	PRD   string            `json:"prd,omitempty"`

	// PRDHash is that of the prd.md at PRDKey, given instead of PRD.
	PRDHash string `json:"prd_sha256,omitempty"`

	After int `json:"after,omitempty"` // the run's number is above it

	Team   string          `json:"team,omitempty"` // a registered or an operator's
	Config json.RawMessage `json:"config,omitempty"`

	// Resume goes on with the run of that ID: Files and PRD are those that it began
	// with, and so is the team, if none is given.
	Resume bool `json:"resume,omitempty"`
}

// Prepared is what the workflow needs of a run that can begin.
type Prepared struct {
	Protocol   int           `json:"protocol"`
	ConfigHash string        `json:"config_hash"`
	Plan       scenario.Plan `json:"plan"`
	RunNumber  int           `json:"run_number"`

	// Execution counts the workflows that have worked on the run, this one included.
	Execution int       `json:"execution"`
	StartedAt time.Time `json:"started_at"`

	// Earlier are the results that stay, WorkedMS is how long the run was worked on
	// before, and Events how many events are on record.
	Earlier  []scenario.Result `json:"earlier,omitempty"`
	WorkedMS int64             `json:"worked_ms,omitempty"`
	Events   int               `json:"events,omitempty"`

	// Rest is the execution token that the first step goes on with, empty for none,
	// Spent what was spent on it before, and SpentMS how long it was worked on.
	Rest    string    `json:"rest,omitempty"`
	Spent   llm.Usage `json:"spent,omitzero"`
	SpentMS int64     `json:"spent_ms,omitempty"`

	// URL is where result.json is, for people.
	URL string `json:"url"`

	// Offline says that the built-in model plays the agent.
	Offline bool `json:"offline,omitempty"`
}

// StepInput is one launch. What is large is read from the run's directory.
type StepInput struct {
	Scenario       string          `json:"scenario"` // slug
	Run            string          `json:"run"`
	ConfigHash     string          `json:"config_hash"`
	Launch         scenario.Launch `json:"launch"`
	TimeoutSeconds int             `json:"timeout_seconds"`
}

// StepResult is what a step came to, in paths and short text.
type StepResult struct {
	Token    string          `json:"token"`
	Number   int             `json:"number"` // of the launch, among those of its step
	Status   scenario.Status `json:"status"`
	Evidence []string        `json:"evidence"` // paths, as in result.json
	Error    *string         `json:"error,omitempty"`
	Summary  string          `json:"summary,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	Usage    llm.Usage       `json:"usage"`
}

// Result is a run as result.json has it, and the result of its workflow.
type Result struct {
	RunID     string          `json:"run_id"`
	RunNumber int             `json:"run_number"`
	Scenario  string          `json:"scenario"` // slug
	Title     string          `json:"title"`
	Status    scenario.Status `json:"status"` // running, pass, fail or cancelled

	StartedAt   time.Time  `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"` // null while it runs

	// DurationMS is how long the run was worked on, by all its workflows.
	DurationMS int64 `json:"duration_ms"`

	// Steps are those that have ended, in order: all of them when the run is over.
	Steps []scenario.Result `json:"steps"`

	// FailedStep is the first step that did not pass, and Error says why; null if all
	// did, or while the run goes on.
	FailedStep *string `json:"failed_step"`
	Error      *string `json:"error"`

	Cost llm.Usage `json:"cost"`

	// Execution counts the workflows that have worked on the run.
	Execution int `json:"execution"`
}

// State is a run at a glance: the answer to the state query.
type State struct {
	Result

	Paused bool   `json:"paused,omitempty"`
	Step   string `json:"step,omitempty"` // the id of the one that runs

	// Plan are the steps, those that have not begun included.
	Plan []scenario.StepRef `json:"plan"`
}

// Event is one thing that happened in a run.
type Event struct {
	Seq  int       `json:"seq"` // from 1
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // started, step_started, step_ended, suspended, paused, resumed, cancelled, ended
	Step string    `json:"step,omitempty"`
	Text string    `json:"text"`
}

// RecordInput is a run as it stands. Its workflow's latest record has its
// first Kept steps already: Steps are those after them.
type RecordInput struct {
	Result Result  `json:"result"`
	Kept   int     `json:"kept,omitempty"`
	Events []Event `json:"events,omitempty"` // since the last record
}

// Recorded is the evidence that the store has of steps that came to no
// verdict, by their IDs.
type Recorded struct {
	Evidence map[string][]string `json:"evidence,omitempty"`
}
