package session

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/worker"

	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/team"
)

// Activities are the activities of sessions. Bookkeeping needs only Store and Now.
type Activities struct {
	attempt.Process

	memories memories
}

// RegisterSteps registers the activities that need teams, models and keys.
func (a *Activities) RegisterSteps(r worker.ActivityRegistry) {
	r.RegisterActivity(a.Prepare)
	r.RegisterActivity(a.Reopen)
	r.RegisterActivity(a.Draft)
	r.RegisterActivity(a.RunStep)
	r.RegisterActivity(a.RunChecks)
}

// RegisterBookkeeping registers the activities that need only the store.
func (a *Activities) RegisterBookkeeping(r worker.ActivityRegistry) {
	r.RegisterActivity(a.Record)
	r.RegisterActivity(a.Present)
	r.RegisterActivity(a.Reckon)
}

// PrepareInput is the input with which a session was started.
type PrepareInput struct {
	// Index is set by workflows that set search attributes.
	Index bool `json:"index,omitempty"`

	// Protocol is the newest version of the coordination's rules that the
	// workflow implements.
	Protocol int `json:"protocol,omitempty"`

	Session string `json:"session"`
	artifact.Owner
	Query    string          `json:"query"`
	Team     string          `json:"team,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"`
	Criteria json.RawMessage `json:"criteria,omitempty"`
	artifact.Material

	// History are the earlier turns, the oldest first. Continues is the ID of the session
	// whose conversation gives them, and the team if neither Team nor Config does.
	History   []artifact.Turn `json:"history,omitempty"`
	Continues string          `json:"continues,omitempty"`
	artifact.Caller

	Checks string `json:"checks,omitempty"` // reference of the user's directory of checks

	Limits artifact.Limits `json:"limits,omitzero"` // lower those of the team
}

// Prepared is the part of a resolved team that the workflow needs.
type Prepared struct {
	// Protocol is the version of the rules that the session follows.
	Protocol int `json:"protocol,omitempty"`

	// Team is the name of a team of the operator; empty for a configuration of the input.
	Team string `json:"team,omitempty"`

	// Attributes are the search attributes that the session's namespace has.
	Attributes []string `json:"attributes,omitempty"`

	ConfigHash     string              `json:"config_hash"`
	Coordination   coordination.Config `json:"coordination"`
	TimeoutSeconds int                 `json:"timeout_seconds"`

	// GraceSeconds is how long before the session's deadline its steps are asked to
	// finish.
	GraceSeconds int `json:"grace_seconds,omitempty"`

	// HeartbeatTimeoutSeconds applies to its steps; 0 for attempt.HeartbeatTimeout.
	HeartbeatTimeoutSeconds int `json:"heartbeat_timeout_seconds,omitempty"`

	URL     string `json:"url"`               // of the session's directory, for people
	Offline bool   `json:"offline,omitempty"` // the built-in model plays agents of the team

	// Preparations are those to be made before the first step, and Drafted those that were
	// made.
	Preparations []Preparation `json:"preparations,omitempty"`
	Drafted      []Drafted     `json:"drafted,omitempty"`

	// CreatedAt is the time in session.json; zero in histories of earlier versions.
	CreatedAt time.Time `json:"created_at,omitzero"`

	// Seal is the ledger's file that seals it for the run of a reopened session; 0 for others.
	Seal int `json:"seal,omitempty"`
}

// Saved is a session between two runs.
type Saved struct {
	Core     *coordination.State `json:"core"`
	Prepared Prepared            `json:"prepared"`

	Recorded    int  `json:"recorded"`         // number of the last event on record
	SecondsLeft int  `json:"seconds_left"`     // of the session's time
	Warned      bool `json:"warned,omitempty"` // TimeShort was stepped
}

// StepInput is one launch. The activity reads large values, such as the query, from the
// session's directory, because an input stays in the history.
type StepInput struct {
	Session    string              `json:"session"`
	ConfigHash string              `json:"config_hash"`
	Launch     coordination.Launch `json:"launch"`

	Checks bool `json:"checks,omitempty"` // checks that come with an answer are run
}

// StepResult is the outcome of a step in references and short text.
type StepResult struct {
	// Token is the execution token, which a result of an activity that was completed by hand
	// lacks.
	Token string `json:"token,omitempty"`

	Step int `json:"step"`

	// Ended is the reason why a step ended itself without an action, as in
	// loop.EndedError; empty with an action.
	Ended string `json:"ended,omitempty"`

	// Calls are the calls of the caller's tools for whose results the step waits.
	Calls []coordination.Call `json:"calls,omitempty"`

	team.Outcome
	Files  int       `json:"files,omitempty"`
	Checks []string  `json:"checks,omitempty"` // IDs of those that came with an answer
	Usage  llm.Usage `json:"usage"`
}

// RecordInput is the part of the history since the last Record.
type RecordInput struct {
	Session string                  `json:"session"`
	Team    string                  `json:"team,omitempty"` // as in Prepared
	Entries []coordination.Accepted `json:"entries"`
	Events  []coordination.Entry    `json:"events"`

	// Status is the new content of status.json, without the query.
	Status State `json:"status"`

	// Results are the caller's results of calls of its tools.
	Results []coordination.ToolResult `json:"results,omitempty"`

	// Over reports that the session has ended and no step is running.
	Over bool `json:"over,omitempty"`

	// Saved is the session at its end; nil before.
	Saved *Saved `json:"saved,omitempty"`

	// Seal is the last seal of the ledger that the run knows.
	Seal int `json:"seal,omitempty"`
}

// State is a session at a glance: the answer to the state query and the
// content of status.json.
type State struct {
	SessionID string `json:"session_id"`
	Query     string `json:"query"`

	// Continues is the ID of the session whose conversation this one goes on with.
	Continues string `json:"continues,omitempty"`

	coordination.View

	// Status is "running" or how the session ended.
	Status string `json:"status"`

	// Final is null until there is a final answer.
	Final *FinalAnswer `json:"final"`

	// DecidedBy is the ground of the decision, Support that of its winner. Tie are the agents
	// with as many votes as the winner, Cut those whose steps a quorum has cancelled.
	DecidedBy coordination.Basis    `json:"decided_by,omitempty"`
	Support   *coordination.Support `json:"support,omitempty"`
	Tie       []string              `json:"tie,omitempty"`
	Cut       []string              `json:"cut,omitempty"`

	// Preparations are those that a model made before the first step.
	Preparations []Drafted `json:"preparations,omitempty"`

	// Ignored is the last signal that could not be read, and why; empty once a later request
	// has been read.
	Ignored string `json:"ignored,omitempty"`

	// Error is the reason why the session failed; null unless it failed.
	Error *artifact.Error `json:"error"`
}

// FinalAnswer refers to the final answer.
type FinalAnswer struct {
	Agent string `json:"agent"` // its author
	Label string `json:"label"`
	Path  string `json:"path"` // of its answer.json
}

// PresentInput is the session's decision.
type PresentInput struct {
	Session  string                `json:"session"`
	Decision coordination.Decision `json:"decision"`
}

// Presented is the final answer.
type Presented struct {
	Answer    string `json:"answer"` // truncated to maxAnswer
	Truncated bool   `json:"truncated,omitempty"`
	Path      string `json:"path"` // of the whole answer
}
