package session

import (
	"encoding/json"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// The registered activity names. They are in every history: changing one
// breaks running sessions.
const (
	PrepareName = "Prepare"
	RunStepName = "RunStep"
	RecordName  = "Record"
	PresentName = "Present"
)

// Activities are the activities of sessions. Bookkeeping needs only Store and Now.
type Activities struct{ attempt.Process }

// RegisterSteps registers the activities that need teams, models and keys.
func (a *Activities) RegisterSteps(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.Prepare, activity.RegisterOptions{Name: PrepareName})
	r.RegisterActivityWithOptions(a.RunStep, activity.RegisterOptions{Name: RunStepName})
}

// RegisterBookkeeping registers the activities that need only the store.
func (a *Activities) RegisterBookkeeping(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.Record, activity.RegisterOptions{Name: RecordName})
	r.RegisterActivityWithOptions(a.Present, activity.RegisterOptions{Name: PresentName})
}

// PrepareInput is what a session was started with.
type PrepareInput struct {
	// Protocol is the newest version of the coordination's rules that the
	// workflow knows; 0 in old histories, which are of version 1.
	Protocol int `json:"protocol,omitempty"`

	Session    string          `json:"session"`
	WorkflowID string          `json:"workflow_id"`
	FirstRunID string          `json:"first_run_id"`
	Query      string          `json:"query"`
	Team       string          `json:"team,omitempty"`
	Config     json.RawMessage `json:"config,omitempty"`
	Criteria   json.RawMessage `json:"criteria,omitempty"`
}

// Prepared is what the workflow needs of a resolved team.
type Prepared struct {
	// Protocol is the version of the rules that the session has from now on; 0
	// stands for 1.
	Protocol int `json:"protocol,omitempty"`

	ConfigHash     string              `json:"config_hash"`
	Coordination   coordination.Config `json:"coordination"`
	TimeoutSeconds int                 `json:"timeout_seconds"`

	// GraceSeconds is how long before the end of the session's time its steps are
	// told to come to an end.
	GraceSeconds int `json:"grace_seconds,omitempty"`

	// URL is where the session's directory is, for people.
	URL string `json:"url"`

	// Offline says that the built-in model plays agents of the team.
	Offline bool `json:"offline,omitempty"`
}

// StepInput is one launch. Large values, such as the query, are read from the
// session's directory: an input stays in the history.
type StepInput struct {
	Session    string              `json:"session"`
	ConfigHash string              `json:"config_hash"`
	Launch     coordination.Launch `json:"launch"`
}

// StepResult is a step's action in references and short text.
type StepResult struct {
	// Token is the execution token. It tells a result of a step from one with which
	// somebody completed the activity by hand.
	Token string `json:"token,omitempty"`

	Step int `json:"step"`

	// Ended is why a step ended itself without an action, a loop.EndedError's
	// Why; empty with an action.
	Ended string `json:"ended,omitempty"`

	Action      coordination.Action     `json:"action,omitempty"`
	Target      string                  `json:"target,omitempty"`
	TargetLabel string                  `json:"target_label,omitempty"`
	Reason      string                  `json:"reason,omitempty"` // of a vote or a restart, cut at team.MaxReason bytes
	Status      coordination.StopStatus `json:"status,omitempty"`
	Summary     string                  `json:"summary,omitempty"` // of a stop, cut like Reason
	Seen        []coordination.Seen     `json:"seen,omitempty"`
	Heard       int                     `json:"heard,omitempty"` // number of the last human message that was told
	Files       int                     `json:"files,omitempty"`
	Usage       llm.Usage               `json:"usage"`
}

// RecordInput is what has happened since the last Record.
type RecordInput struct {
	Session string                  `json:"session"`
	Entries []coordination.Accepted `json:"entries"`
	Events  []coordination.Entry    `json:"events"`

	// Status is the new content of status.json, without the query.
	Status State `json:"status"`

	// Over says that the session has ended: no step of it goes on any more.
	Over bool `json:"over,omitempty"`
}

// State is a session at a glance: the answer to the state query and the
// content of status.json.
type State struct {
	SessionID string `json:"session_id"`
	Query     string `json:"query"`
	coordination.View

	// Status is "running" or how the session ended.
	Status string `json:"status"`

	// Final is where the final answer is; null until it is there.
	Final *FinalAnswer `json:"final"`
}

// FinalAnswer says whose the final answer is and where.
type FinalAnswer struct {
	Agent string `json:"agent"`
	Label string `json:"label"`
	Path  string `json:"path"` // of its answer.json
}

// maxAnswer is how much of the answer a session's result carries, in bytes.
// The whole text is at its answer path.
const maxAnswer = 8 << 10

// PresentInput names the answer that the session decided for.
type PresentInput struct {
	Session  string                `json:"session"`
	Decision coordination.Decision `json:"decision"`
}

// Presented is the final answer.
type Presented struct {
	Answer    string `json:"answer"` // cut at maxAnswer
	Truncated bool   `json:"truncated,omitempty"`
	Path      string `json:"path"`
}
