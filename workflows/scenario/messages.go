package scenario

import (
	"encoding/json"
	"regexp"
	"strings"

	"conclave/engine/scenario"
	"conclave/workflows"
)

// Type is the workflow type of a scenario run. Its queries, signals and updates have the same names
// as those of a session: state, timeline, pause and resume.
const Type = "Scenario"

// Memo keys of a scenario's workflow, in addition to those of package workflows.
const (
	MemoScenario  = "scenario" // slug of the scenario
	MemoRun       = "run_id"
	memoRunNumber = "run_number"
)

// Limits of a run's input.
const (
	// MaxDefinition bounds the total size of the step files and prd.md, in bytes.
	MaxDefinition = 512 << 10

	// DefaultStepSeconds is the default time limit of a step, MaxStepSeconds the maximum.
	DefaultStepSeconds = 30 * 60
	MaxStepSeconds     = 24 * 60 * 60
)

// Input starts a run of a scenario.
type Input struct {
	// Project tells people where the scenario comes from.
	Project string `json:"project,omitempty"`

	// Plan, Files (by name in the plan) and PRD define the run.
	Plan  scenario.Plan     `json:"plan"`
	Files map[string]string `json:"files,omitempty"`
	PRD   string            `json:"prd,omitempty"`

	// PRDHash replaces PRD if prd.md contains credentials, because inputs can be read in the
	// history. It is the acts.PRDHash of the file that the client has stored at acts.PRDKey.
	PRDHash string `json:"prd_sha256,omitempty"`

	// Team is the name of a team with one agent; Config is such a team in JSON, which can name the
	// worker's providers but not define any.
	Team   string          `json:"team,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`

	RunID string `json:"run_id,omitempty"` // default: the workflow ID

	// After is the highest run number known to the client. The run gets a higher number.
	After int `json:"after,omitempty"`

	// Resume continues a run from the first step that did not pass, with its original definition.
	// It is the run RunID of the scenario Plan.Slug or, if both are empty, the last run with this
	// workflow ID. Only Team or Config and StepTimeoutSeconds may also be set.
	Resume bool `json:"resume,omitempty"`

	// StepTimeoutSeconds bounds the time of each step. 0 means the previous value for a resumed
	// run, and DefaultStepSeconds otherwise.
	StepTimeoutSeconds int `json:"step_timeout_seconds,omitempty"`

	faults workflows.Faults
}

// UnmarshalJSON never fails. validate reports faults.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	in.faults = workflows.Decode(data, (*plain)(in))
	return nil
}

func (in Input) validate(id string) error {
	switch {
	case len(in.Config) > workflows.MaxInput:
		return workflows.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), workflows.MaxInput)
	case in.StepTimeoutSeconds < 0 || in.StepTimeoutSeconds > MaxStepSeconds:
		return workflows.Invalid("step_timeout_seconds is %d; a step may take 1 to %d seconds", in.StepTimeoutSeconds, MaxStepSeconds)
	case in.After < 0:
		return workflows.Invalid("after is %d; run numbers begin with 1", in.After)
	}
	if in.Resume {
		return in.validateResume()
	}
	if err := scenario.CheckRunID(id); err != nil {
		return workflows.Invalid("%s", err.Error())
	}
	if err := in.Plan.Check(); err != nil {
		return workflows.Invalid("%s", err.Error())
	}
	return in.validateFiles()
}

// hashForm matches a hexadecimal SHA-256.
var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// validateResume returns an error for fields that a resumed run would ignore, and for a slug
// without a run_id or the reverse.
func (in Input) validateResume() error {
	if in.Plan.Slug != "" || in.RunID != "" {
		if err := scenario.CheckSlug(in.Plan.Slug); err != nil {
			return workflows.Invalid("%s", err.Error())
		}
		if in.RunID == "" {
			return workflows.Invalid("run_id is missing: with plan.slug it names the run to resume; leave both out to resume the run of this workflow ID")
		}
		if err := scenario.CheckRunID(in.RunID); err != nil {
			return workflows.Invalid("%s", err.Error())
		}
	}
	if len(in.Plan.Steps) > 0 || len(in.Files) > 0 || in.PRD != "" || in.PRDHash != "" {
		return workflows.Invalid("a resumed run keeps its definition: leave plan.steps, files, prd and prd_sha256 out, or start a new run")
	}
	return nil
}

// validateFiles returns an error for files that do not match the plan.
func (in Input) validateFiles() error {
	switch {
	case in.PRD != "" && in.PRDHash != "":
		return workflows.Invalid("prd and prd_sha256 exclude each other: prd.md is either in the input or in the store; leave one out")
	case in.PRDHash != "" && !hashForm.MatchString(in.PRDHash):
		return workflows.Invalid("prd_sha256 is %.80q; it takes the SHA-256 of prd.md, 64 digits of lower-case hex", in.PRDHash)
	}
	size := len(in.PRD)
	for _, s := range in.Plan.All() {
		text, ok := in.Files[s.File]
		switch {
		case !ok:
			return workflows.Invalid("files lacks %s, the file of step %s", s.File, s.ID)
		case strings.TrimSpace(text) == "":
			return workflows.Invalid("%s, the file of step %s, is empty: describe the step", s.File, s.ID)
		}
		size += len(text) + len(s.Title)
	}
	switch {
	case len(in.Files) > len(in.Plan.All()):
		return workflows.Invalid("files has %d files for %d steps: give those that the plan names", len(in.Files), len(in.Plan.All()))
	case size > MaxDefinition:
		return workflows.Invalid("the files of the steps and prd.md have %d bytes, at most %d are accepted", size, MaxDefinition)
	}
	return nil
}
