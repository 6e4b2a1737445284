package coordination

import "time"

// Doing is the current activity of a step, as its worker reports it. The state of a session
// has only the session's own waits.
type Doing struct {
	Kind  DoingKind `json:"kind"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // expected end of a wait; zero if unknown
	What  string    `json:"what"`           // one line for people
}

// DoingKind is the kind of an activity.
type DoingKind string

// The kinds of activities. All except CallsModel, RunsTool and RunsChecks are waits.
const (
	CallsModel  DoingKind = "model"
	RunsTool    DoingKind = "tool"
	RunsChecks  DoingKind = "checks"     // checks run on the agent's answer
	RateLimited DoingKind = "rate_limit" // the model's server accepts no more requests for now
	ModelAway   DoingKind = "outage"     // the model's server does not reply
	Queued      DoingKind = "queue"      // the step waits for a worker, or for its turn under one of the worker's limits
	OnHold      DoingKind = "paused"     // an operator paused the activity
)

// Waits reports whether the step is waiting rather than making progress.
func (d Doing) Waits() bool {
	return d.Kind != CallsModel && d.Kind != RunsTool && d.Kind != RunsChecks
}
