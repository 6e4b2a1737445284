package workflows

import (
	"encoding/json"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// The wire names that other people's programs use.
const (
	// TaskQueue is where sessions run unless told otherwise.
	TaskQueue = "conclave"

	// StepsSuffix makes of a session's task queue the one of its steps. They are
	// apart so that half-hour steps never hold up the bookkeeping, and so that a
	// command that only looks can move sessions along without running steps.
	StepsSuffix = "-steps"

	// SessionType is the workflow type of a session.
	SessionType = "Session"

	// StateQuery answers a State; TimelineQuery the ordered recent events.
	StateQuery    = "state"
	TimelineQuery = "timeline"

	// The things that people ask of a running session. Each name is a signal and
	// an update: the update is refused with a reason where it makes no sense, and
	// answers the State that it led to, without the query.
	SaySignal    = "say"    // SayInput: a message to the agents
	PauseSignal  = "pause"  // suspend what runs
	ResumeSignal = "resume" // go on after a pause
	FinishSignal = "finish" // decide now with what is there
	RetrySignal  = "retry"  // RetryInput: run failed steps again
)

// SayInput is what a person says to Agent; to everybody if Agent is empty.
type SayInput struct {
	Text  string `json:"text"`
	Agent string `json:"agent,omitempty"`
}

// RetryInput names the agent whose failed step is run again; every failed agent
// if Agent is empty.
type RetryInput struct {
	Agent string `json:"agent,omitempty"`
}

// Types of the errors with which an update is refused.
const (
	// Refused says that what was asked makes no sense now.
	Refused = "Refused"

	// TooEarly says that the session is still being prepared. A signal of the
	// same name waits until it is.
	TooEarly = "TooEarly"
)

// Memo keys of a session's workflow. They are readable without a worker.
const (
	MemoSession = "session_id"
	MemoQuery   = "query"  // cut at 200 characters
	MemoStatus  = "status" // running, paused, parked, or how the session ended
	MemoRound   = "round"
	MemoWinner  = "winner"  // label
	MemoOffline = "offline" // true if the built-in model plays the team
	MemoPaused  = "paused"  // true while a person has paused the session
	MemoParked  = "parked"  // what the session waits for; empty if for nothing

	// MemoDoorbell is a step.Bell, for the steps that are running.
	MemoDoorbell = "doorbell"
)

// The MemoStatus of a session that has not ended. In its State a held session
// is Running: paused and parked are fields of their own there.
const (
	Running = "running"
	Paused  = "paused"
	Parked  = "parked"
)

// SessionInput starts a session. Unknown fields are tolerated, so that stock
// clients of any version can start one.
type SessionInput struct {
	Query     string `json:"query"`
	SessionID string `json:"session_id,omitempty"` // default: the workflow ID

	// Team names a team of the worker, "default" if neither it nor Config is given.
	Team string `json:"team,omitempty"`
	// Config is a team as JSON. It can name the worker's providers, never define them.
	Config json.RawMessage `json:"config,omitempty"`

	EvalCriteria json.RawMessage `json:"eval_criteria,omitempty"`
	// History holds earlier turns; not available in this version.
	History json.RawMessage `json:"history,omitempty"`

	// Continued carries a session over continue-as-new; a client that sets it is
	// refused.
	Continued *Continued `json:"continued,omitempty"`

	// malformed is why the input could not be decoded: a session that cannot be
	// understood fails with a reason instead of hanging in its first task.
	malformed string
}

// UnmarshalJSON never fails; what is wrong with the input is said by validate.
func (in *SessionInput) UnmarshalJSON(data []byte) error {
	type plain SessionInput
	if err := json.Unmarshal(data, (*plain)(in)); err != nil {
		*in = SessionInput{malformed: err.Error()}
	}
	return nil
}

// SessionResult is how a session ended.
type SessionResult struct {
	SessionID       string         `json:"session_id"`
	Status          string         `json:"status"`
	Winner          string         `json:"winner"`
	WinnerLabel     string         `json:"winner_label"`
	Answer          string         `json:"answer"` // cut at 8 KB
	AnswerTruncated bool           `json:"answer_truncated,omitempty"`
	AnswerPath      *string        `json:"answer_path"` // null without an answer
	Votes           map[string]int `json:"votes"`       // target to count
	Rounds          int            `json:"rounds"`
	Cost            llm.Usage      `json:"cost"`

	// Error says why a failed session has no answer.
	Error *artifact.Error `json:"error,omitempty"`
}

// State is the answer to StateQuery.
type State = activities.SessionState

// Continued is what a session carries over continue-as-new. No step is running
// then.
type Continued struct {
	Core     *coordination.State `json:"core"`
	Prepared activities.Prepared `json:"prepared"`

	// Recorded is the number of the last event that Record has written.
	Recorded int `json:"recorded"`

	// SecondsLeft of the session's time.
	SecondsLeft int `json:"seconds_left"`

	// Warned says that the core has been told that the time is nearly over.
	Warned bool `json:"warned,omitempty"`
}
