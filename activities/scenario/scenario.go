package scenario

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/worker"

	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/scenario"
)

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
