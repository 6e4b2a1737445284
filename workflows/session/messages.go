package session

import (
	"encoding/json"
	"strings"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/team"
	"conclave/workflows/drive"
)

// Type is the workflow type of a session.
const Type = "Session"

// Memo keys of a session, in addition to those of drive.
const (
	MemoSession = "session_id"
	memoWinner  = "winner" // label of an answer
)

// Input starts a session. With Resume alone it continues an ended session. Unknown keys are
// refused, because a misspelt key could cause costs.
type Input struct {
	Query     string `json:"query"`
	SessionID string `json:"session_id,omitempty"` // default: the workflow ID

	// Team is the name of a team on the worker; Config is a team in JSON, which can name the
	// worker's providers but not define any. If both are empty, the team is "default".
	Team   string          `json:"team,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`

	EvalCriteria json.RawMessage `json:"eval_criteria,omitempty"`

	artifact.Material
	// History lists earlier turns, oldest first. Alternatively, Continues is the ID of a session
	// with a decision, whose turns are used.
	History   []artifact.Turn `json:"history,omitempty"`
	Continues string          `json:"continues,omitempty"`

	// Instructions apply to every answer; they are the system messages of a caller. Depth is 1 if
	// an agent of another team asked this team, 2 if that team was itself asked by an agent, and so
	// on.
	Instructions string `json:"instructions,omitempty"`
	Depth        int    `json:"depth,omitempty"`

	// ClientTools are tools that the caller runs, as in requests of OpenAI's API. They are offered
	// to all agents or, if ClientToolsFor is "presenter", only to the agent that presents the final
	// answer.
	ClientTools    json.RawMessage `json:"client_tools,omitempty"`
	ClientToolsFor string          `json:"client_tools_for,omitempty"`

	// Checks is a reference to the user's stored directory of checks, in the form sha256:<hex>. It
	// requires a team whose ballot runs checks.
	Checks string `json:"checks,omitempty"`

	// Limits reduce the limits of the team.
	Limits artifact.Limits `json:"limits,omitzero"`

	// Resume continues the session with this workflow ID that failed, is undecided, or was
	// cancelled, terminated or timed out. Agent restricts the retry to the failed step of one agent.
	// Text is a message with which the session goes on; Agent is then its recipient.
	Resume bool   `json:"resume,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Text   string `json:"text,omitempty"`

	// Continued passes a session on to the next execution; validate refuses it from clients.
	Continued *acts.Saved `json:"continued,omitempty"`

	faults drive.Faults
}

// UnmarshalJSON never fails. validate reports faults.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	in.faults = drive.Decode(data, (*plain)(in))
	return nil
}

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

	// Error is the reason why a session has no answer.
	Error *artifact.Error `json:"error,omitempty"`
}

// validate returns an error for an input that cannot start a session with the given ID. continued
// is true if the previous run started this one.
func (in Input) validate(id string, continued bool) error {
	switch {
	case in.Continued != nil && !continued:
		return drive.Invalid("continued is reserved for the workflow: leave it out")
	case in.Resume && !continued:
		if in.Query != "" || in.Team != "" || activities.Given(in.Config) || activities.Given(in.EvalCriteria) || in.Checks != "" || len(in.History) > 0 || in.Continues != "" || in.Limits != (artifact.Limits{}) || in.Given() || !in.caller().IsZero() {
			return drive.Invalid("resume goes on with the session as it was started: leave everything but session_id, agent and text out")
		}
		if in.SessionID == "" { // the workflow's ID need not be that of a session
			return nil
		}
	case in.Agent != "":
		return drive.Invalid("agent limits the retry of resume: leave it out")
	case in.Text != "":
		return drive.Invalid("text is a message to a session that resume goes on with: leave it out")
	case strings.TrimSpace(in.Query) == "":
		return drive.Invalid(`the input has no query: give {"query":"…"}`)
	case len(in.History) > 0 && in.Continues != "":
		return drive.Invalid("continues stands for the history of a session: leave history out")
	case in.Limits.Seconds < 0 || in.Limits.CostUSD < 0:
		return drive.Invalid("limits are seconds and cost_usd above 0: give such amounts, or leave them out")
	case len(in.Query) > drive.MaxInput:
		return drive.Invalid("the query has %d bytes, at most %d are accepted: give large material as a base or a context: `conclave upload DIR` stores one", len(in.Query), drive.MaxInput)
	case len(in.Config) > drive.MaxInput:
		return drive.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), drive.MaxInput)
	case len(in.EvalCriteria) > drive.MaxInput:
		return drive.Invalid("the eval_criteria have %d bytes, at most %d are accepted", len(in.EvalCriteria), drive.MaxInput)
	}
	err := team.CheckTurns(in.Query, in.History)
	if err == nil {
		err = in.caller().Check(drive.MaxInput)
	}
	if err == nil && in.Continues != "" {
		err = artifact.CheckSessionID(in.Continues)
	}
	if err == nil {
		err = artifact.CheckSessionID(id)
	}
	if err != nil {
		return drive.Invalid("%s", err.Error())
	}
	return nil
}

// caller returns the parts of the input that a program sends in addition to the query.
func (in Input) caller() artifact.Caller {
	return artifact.Caller{
		Instructions: in.Instructions, Depth: in.Depth, ClientTools: in.ClientTools, ClientToolsFor: in.ClientToolsFor,
	}
}
