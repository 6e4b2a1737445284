package session

import (
	"encoding/json"
	"strings"

	acts "conclave/activities/session"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows/drive"
)

// Type is the workflow type of a session.
const Type = "Session"

// Memo keys of a session, beside those of drive.
const (
	MemoSession = "session_id"
	MemoRound   = "round"
	MemoWinner  = "winner" // label
)

// Input starts a session. Unknown fields are tolerated, so that stock
// clients of any version can start one.
type Input struct {
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
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	if err := json.Unmarshal(data, (*plain)(in)); err != nil {
		*in = Input{malformed: err.Error()}
	}
	return nil
}

// Result is how a session ended.
type Result struct {
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
type State = acts.State

// Continued is what a session carries over continue-as-new. No step is running
// then.
type Continued struct {
	Core     *coordination.State `json:"core"`
	Prepared acts.Prepared       `json:"prepared"`

	// Recorded is the number of the last event that Record has written.
	Recorded int `json:"recorded"`

	// SecondsLeft of the session's time.
	SecondsLeft int `json:"seconds_left"`

	// Warned says that the core has been told that the time is nearly over.
	Warned bool `json:"warned,omitempty"`
}

// validate refuses an input that cannot become a session. id is its session ID;
// continued says that this run was started by the one before it.
func (in Input) validate(id string, continued bool) error {
	switch {
	case in.malformed != "":
		return drive.Invalid(`the input is no session: %s; give an object like {"query":"…"}`, in.malformed)
	case in.Continued != nil && !continued:
		return drive.Invalid("continued is the workflow's own: leave it out")
	case strings.TrimSpace(in.Query) == "":
		return drive.Invalid(`the input has no query: give {"query":"…"}`)
	case len(in.History) > 0 && string(in.History) != "null":
		return drive.Invalid("history is not available in this version: put what matters into the query")
	case len(in.Query) > drive.MaxQuery:
		return drive.Invalid("the query has %d bytes, at most %d are accepted: put large material where the agents can read it", len(in.Query), drive.MaxQuery)
	case len(in.Config) > drive.MaxConfig:
		return drive.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), drive.MaxConfig)
	case len(in.EvalCriteria) > drive.MaxConfig:
		return drive.Invalid("the eval_criteria have %d bytes, at most %d are accepted", len(in.EvalCriteria), drive.MaxConfig)
	}
	if err := artifact.CheckSessionID(id); err != nil {
		return drive.Invalid("%s", err.Error())
	}
	return nil
}
