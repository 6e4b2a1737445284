package session

import (
	"encoding/json"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
)

// Result is the result of a session.
type Result struct {
	SessionID       string         `json:"session_id"`
	Status          string         `json:"status"`
	Winner          string         `json:"winner"`
	WinnerLabel     string         `json:"winner_label"`
	Answer          string         `json:"answer"` // truncated to 8 KB
	AnswerTruncated bool           `json:"answer_truncated,omitempty"`
	AnswerPath      *string        `json:"answer_path"`  // null without an answer
	PresentedBy     *string        `json:"presented_by"` // agent that wrote the answer as the presenter; null if it is the winner's
	FinalLabel      *string        `json:"final_label"`  // label of such an answer
	Votes           map[string]int `json:"votes"`        // number of votes by target
	Voters          []string       `json:"voters"`       // agents with a fresh vote
	Agents          int            `json:"agents"`       // number of agents that have joined the team

	// Data are those of an answer with a schema.
	Data json.RawMessage `json:"data,omitempty"`

	// Failed lists the agents that had failed at the end.
	Failed []coordination.FailedAgent `json:"failed"`
	// Tie lists the agents with as many votes as the winner if a tie was broken; otherwise it is
	// null.
	Tie []string `json:"tie"`
	// Earlier is true if the decision was made by an earlier attempt of the team because the last
	// one made none.
	Earlier bool `json:"earlier,omitempty"`

	// DecidedBy is the basis of the decision: votes, checks, agreement, quorum, presenter or force;
	// empty without an answer.
	DecidedBy coordination.Basis `json:"decided_by"`
	// Support is the support for the winner; null without votes or agreement.
	Support *coordination.Support `json:"support"`
	// Cut lists the agents whose steps were cancelled by a quorum or while they were away.
	Cut []string `json:"cut,omitempty"`

	Rounds int `json:"rounds"`

	// DurationSeconds is the time since the session was created, including pauses.
	DurationSeconds float64 `json:"duration_seconds"`
	// Rejections counts the rejected replies of models.
	Rejections int64 `json:"rejections"`

	Cost llm.Usage `json:"cost"`
	// Reported is the part of the cost that was already reported in replies with calls of the
	// caller's tools.
	Reported llm.Usage `json:"reported,omitzero"`

	// NoShell is why no agent with `tools.shell: auto` could run commands; empty if it could.
	NoShell string `json:"no_shell,omitempty"`

	// Error is the reason why a session has no answer.
	Error *artifact.Error `json:"error,omitempty"`
}
