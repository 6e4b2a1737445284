package record

import (
	"encoding/json"
	"time"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session/check"
	"conclave/engine/step"
	"conclave/workflows"
)

// Session is the record of a session at the time of one reading.
type Session struct {
	ID        string
	Query     string
	Created   time.Time  // zero if it is unknown
	Continues string     // ID of the session whose turns come before
	Base      string     // reference of the files that it started from; empty without any
	Change    string     // patch from the base to the final answer; empty without one
	State     acts.State // content of status.json
	Team      Team
	Turns     []Turn // earlier turns of the conversation
	Agents    []*Agent
	Steps     []*Step // steps by start
	Events    []coordination.Entry
	Messages  []step.Message
	Criteria  []Criterion
	Problems  []string // documents that could not be used, with the reason
}

// Team has the fields of config.json that a reader needs: a session's, a pipeline's or a scenario's.
// Other fields may have any form.
type Team struct {
	Agents []Member `json:"agents"`
	Steps  []struct {
		Name  string `json:"name"`
		Agent string `json:"agent"`
	} `json:"steps"`
	Orchestrator struct {
		Budget struct {
			USD    *float64 `json:"max_cost_usd"`
			Tokens *float64 `json:"max_total_tokens"`
		} `json:"budget"`
		Act struct {
			MinSupport *float64 `json:"min_support"`
			Wrong      *float64 `json:"wrong"`
		} `json:"act_when"`
	} `json:"orchestrator"`
	AnswerSchema json.RawMessage `json:"answer_schema"` // of the session, or else of the team
}

// Member is an agent as configured.
type Member struct {
	ID      string `json:"id"`
	Backend struct {
		Type     string `json:"type"`
		Provider string `json:"provider"`
		Model    string `json:"model"`
	} `json:"backend"`
}

// Turn is an earlier question with its answer.
type Turn struct {
	Query  string `json:"query"`
	Answer string `json:"answer"`
}

// Criterion is an evaluation criterion.
type Criterion struct {
	Text     string `json:"text"`
	Category string `json:"category"`
}

// Agent is a member of the team.
type Agent struct {
	coordination.AgentView
	Model string // model with its provider; empty if it is unknown
	Steps []*Step
}

// Step is one step of an agent.
type Step struct {
	Agent    string
	Number   int
	Query    string // recorded in the claim; empty for a step of a session
	Dir      string // relative to the session, such as agents/agent_a/001/
	Action   string // empty without one
	Started  time.Time
	Ended    time.Time // zero while it runs
	Over     bool
	Accepted bool     // the session counted its action
	Shown    []string // labels at its start
	Seen     map[string]int
	Heard    int // number of the last message that it received
	Usage    llm.Usage
	Error    *artifact.Error

	Answer     *Answer
	Vote       *Vote
	Stop       *Stop
	Checks     []check.Result // checks of its answer
	Evaluation *Evaluation    // evaluation of its answer; nil without one
	Rejections []Rejection
	Received   []string // labels that reached it while it worked

	heardKnown bool
	partial    bool // documents derived from the commit are still missing
	judged     int  // events about checks and evaluations that had been read with the step
}

// Answer is the answer of a step.
type Answer struct {
	Label   string
	Text    string
	Data    json.RawMessage // of an answer with a schema
	Final   bool            // whether the answer was presented
	Files   []artifact.File // files; with a base only those that differ from it
	Removed []string        // paths of the base that the answer lacks
}

// Vote is the vote of a step.
type Vote struct {
	artifact.Vote
	Stale  *Stale // nil if it is fresh, or was when it was replaced
	Stands bool   // it was not replaced by a later action of its agent or by a new vote of all
}

// Stale is the reason why a vote became stale.
type Stale struct {
	Label   string // the answer that it has not seen; empty if the reason is a message or unknown
	Message int    // number of the message; 0 for none
}

// Stop is the stop of a step.
type Stop struct {
	Summary string
	Status  string
}

// Rejection is a refused reply of a step.
type Rejection struct {
	Code string
	Text string // told to the model
}

// Running reports whether the session has not ended.
func (s *Session) Running() bool { return s.State.Status == workflows.Running }

// Agent returns the agent with the ID, or nil.
func (s *Session) Agent(id string) *Agent {
	for _, a := range s.Agents {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// Step returns the step of an agent, or nil.
func (s *Session) Step(agent string, number int) *Step {
	for _, p := range s.Steps {
		if p.Agent == agent && p.Number == number {
			return p
		}
	}
	return nil
}

// Answered returns the step whose answer has the label, or nil.
func (s *Session) Answered(label string) *Step {
	for _, p := range s.Steps {
		if p.Answer != nil && p.Answer.Label == label {
			return p
		}
	}
	return nil
}

// Answers returns the steps with an answer, in order of their ends.
func (s *Session) Answers() []*Step {
	var found []*Step
	for _, p := range s.byEnd() {
		if p.Answer != nil {
			found = append(found, p)
		}
	}
	return found
}

// Final returns the step with the final answer, or nil.
func (s *Session) Final() *Step {
	if f := s.State.Final; f != nil {
		if p := s.Answered(f.Label); p != nil {
			return p
		}
	}
	return s.Winner()
}

// Winner returns the step with the winning answer, or nil.
func (s *Session) Winner() *Step {
	if s.State.Winner == "" || s.Running() {
		return nil
	}
	for i := len(s.Events) - 1; i >= 0; i-- {
		if e := s.Events[i]; e.Kind == coordination.EntryDecided {
			return s.Step(e.Agent, e.Step)
		}
	}
	var last *Step
	for _, p := range s.Steps {
		if p.Agent == s.State.Winner && p.Answer != nil && !p.Answer.Final {
			last = p
		}
	}
	return last
}

// Ended returns the time of the last event or step.
func (s *Session) Ended() time.Time {
	var last time.Time
	for _, e := range s.Events {
		if e.Time.After(last) && e.Kind != coordination.EntryIgnored {
			last = e.Time
		}
	}
	for _, p := range s.Steps {
		for _, at := range []time.Time{p.Ended, p.Started} {
			if at.After(last) && len(s.Events) == 0 {
				last = at
			}
		}
	}
	return last
}

// Began returns the start of the session or of its first step.
func (s *Session) Began() time.Time {
	if !s.Created.IsZero() || len(s.Steps) == 0 {
		return s.Created
	}
	return s.Steps[0].Started
}
