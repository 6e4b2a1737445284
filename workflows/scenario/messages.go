package scenario

import (
	"encoding/json"

	acts "conclave/activities/scenario"
	"conclave/engine/scenario"
)

// Type is the workflow type of a run of a scenario. Its queries, signals
// and updates have the names of a session's: state, timeline, pause and resume.
const Type = "Scenario"

// Memo keys of a scenario's workflow, beside those of a session's.
const (
	MemoScenario  = "scenario" // slug
	MemoRun       = "run_id"
	MemoRunNumber = "run_number"
)

// Bounds of a run's input.
const (
	// MaxDefinition is the most that the files of the steps and prd.md have together, in
	// bytes.
	MaxDefinition = 512 << 10

	// DefaultStepSeconds is how long a step may take, unless told otherwise;
	// MaxStepSeconds is the most that can be asked for.
	DefaultStepSeconds = 30 * 60
	MaxStepSeconds     = 24 * 60 * 60
)

// Input starts a run of a scenario.
type Input struct {
	// Project names where the scenario comes from, for people.
	Project string `json:"project,omitempty"`

	// Plan, Files (by the names in the plan) and PRD are the definition. The run keeps
	// them as they are.
	Plan  scenario.Plan     `json:"plan"`
	Files map[string]string `json:"files,omitempty"`
	PRD   string            `json:"prd,omitempty"`

	// PRDHash is given instead of PRD if prd.md has credentials, which everybody sees
	// who sees the input: acts.PRDHash of what was put into the workers' store at
	// acts.PRDKey before.
	PRDHash string `json:"prd_sha256,omitempty"`

	// Team names a team of one agent; Config is one as JSON. It can name the worker's
	// providers, never define them.
	Team   string          `json:"team,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`

	RunID string `json:"run_id,omitempty"` // default: the workflow ID

	// After is a run number above which the run's has to be: the highest that whoever
	// starts it knows.
	After int `json:"after,omitempty"`

	// Resume goes on with the run RunID of the scenario Plan.Slug, from its first step
	// that did not pass, with the definition that it began with. Of the rest, only Team
	// or Config and StepTimeoutSeconds may be given.
	Resume bool `json:"resume,omitempty"`

	// StepTimeoutSeconds bounds each step, from when its agent begins;
	// DefaultStepSeconds if 0.
	StepTimeoutSeconds int `json:"step_timeout_seconds,omitempty"`

	malformed string
}

// UnmarshalJSON never fails; what is wrong with the input is said by validate.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	if err := json.Unmarshal(data, (*plain)(in)); err != nil {
		*in = Input{malformed: err.Error()}
	}
	return nil
}

// State is the answer to StateQuery of a scenario, and of its updates.
type State = acts.State

// Event is an entry of the answer to TimelineQuery of a scenario.
type Event = acts.Event

// Result is how a run ended: the content of result.json, and the result of
// the workflow of a run that was not cancelled.
type Result = acts.Result
