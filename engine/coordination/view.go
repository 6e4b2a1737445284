// The state for people and programs.

package coordination

import (
	"slices"
	"time"

	"conclave/engine/llm"
)

// View is the state JSON of the public contract without session_id and query. Other types
// embed and marshal it.
type View struct {
	Phase      Phase          `json:"phase"`
	Paused     bool           `json:"paused"`
	Parked     *string        `json:"parked"` // the remedy and the failures; null while it is not parked
	Round      int            `json:"round"`
	Agents     []AgentView    `json:"agents"`           // agents in configured order
	Votes      map[string]int `json:"votes"`            // fresh votes by target
	Winner     string         `json:"winner"`           // agent ID, empty until there is one
	Leader     string         `json:"leader,omitempty"` // label of the answer that a person's request to decide now would choose; empty without one and at the end
	Cost       llm.Usage      `json:"cost"`
	Events     int            `json:"events"`
	Superseded int            `json:"superseded_votes"`  // accepted votes that were replaced, withdrawn or voided
	Completion int            `json:"completion"`        // percentage of active agents that owe nothing; 100 only when the session is done
	Attempt    int            `json:"attempt"`           // number of the team's attempt, from 1
	Messages   int            `json:"messages"`          // number of messages from people
	Calls      []Call         `json:"calls,omitempty"`   // calls of the caller's tools without a result
	Reported   llm.Usage      `json:"reported,omitzero"` // the cost when the caller was last asked

	Questions []Question `json:"questions,omitempty"` // the questions to people without a reply
}

// Question is a question to a person that waits for a reply, in a View and in `conclave inbox`. The driver sets ID
// and Kind.
type Question struct {
	ID           string     `json:"id"`   // of the run
	Kind         string     `json:"kind"` // of the run
	QuestionID   string     `json:"question_id"`
	QuestionKind AskKind    `json:"question_kind"`
	Agent        string     `json:"agent"`
	Text         string     `json:"text"`
	Why          string     `json:"why,omitempty"`
	Options      []string   `json:"options"`
	Tool         string     `json:"tool"`           // empty for a question of an agent
	Arguments    string     `json:"arguments"`      // JSON as the model wrote it, without secrets
	Path         string     `json:"path,omitempty"` // of the document with the whole question, if it is long
	Since        time.Time  `json:"since"`
	Until        *time.Time `json:"until"` // null without a limit
}

// TakesOption reports whether the question is the approval of a pipeline's step with options, of which one approves.
func (q Question) TakesOption() bool { return q.QuestionKind == AskApproval && len(q.Options) > 0 }

// AgentView is one agent in a View.
type AgentView struct {
	ID          string    `json:"id"`
	Number      int       `json:"number"`
	Status      string    `json:"status"`
	Running     bool      `json:"running"`
	Absent      bool      `json:"absent,omitempty"` // it has not joined the staged team
	Doing       *Doing    `json:"doing"`            // nil for a running step, whose activity only its worker knows, unless the agent is away
	Step        int       `json:"step"`             // number of the last finished step
	Answers     int       `json:"answers"`
	LatestLabel string    `json:"latest_label"` // empty without an answer
	Vote        *VoteView `json:"vote"`
	Stop        *StopView `json:"stop,omitempty"`       // stop, in decomposition
	Purpose     Purpose   `json:"purpose,omitempty"`    // purpose of the running step
	Evaluation  *Critique `json:"evaluation,omitempty"` // the last one of an answer of this attempt
	Cost        llm.Usage `json:"cost"`
	Error       *Failure  `json:"error"`
}

// VoteView is an agent's vote in a View.
type VoteView struct {
	Choice
	Step  int  `json:"step"`
	Stale bool `json:"stale"`
}

// StopView is an agent's stop in a View.
type StopView struct {
	Status  StopStatus `json:"status"`
	Summary string     `json:"summary"` // truncated to 280 characters
	Step    int        `json:"step"`    // 0 if the session stopped the agent at its limit
	Stale   bool       `json:"stale"`
}

// Phase is the progress of a session.
type Phase string

// The phases of a session.
const (
	PhasePreparing        Phase = "preparing"       // the time before the first launch
	PhaseInitialAnswers   Phase = "initial_answers" // the first wave, and later ones while there is no answer
	PhaseCoordinating     Phase = "coordinating"
	PhaseWaitingForTools  Phase = "waiting_for_tools"  // nothing runs until the caller returns results
	PhaseWaitingForPerson Phase = "waiting_for_person" // nothing runs until a person replies
	PhasePresenting       Phase = "presenting"         // a step presents or judges the final answer
	PhaseDone             Phase = "done"
)

// The statuses of an agent, as in the package comment.
const (
	statusNoAction = "no_action"
	statusAnswered = "answered"
	statusVoted    = "voted"   // the vote may be stale
	statusStopped  = "stopped" // the stop may be stale
	statusFailed   = "failed"
)

// View returns a copy of the state for people and programs.
func (s *State) View() View {
	v := View{
		Phase:  s.phase(),
		Round:  s.Round,
		Agents: make([]AgentView, 0, len(s.Agents)),
		Votes:  map[string]int{},
		Winner: s.Decision().Winner,
		Cost:   s.Cost(),
		Events: s.Events,

		Paused: s.Paused, Attempt: s.attemptNumber(), Messages: len(s.Messages),
	}
	v.Reported = s.Reported
	if !s.Done() {
		v.Questions = s.viewQuestions()
		v.Calls, v.Leader = s.OpenCalls(), s.electBest(Finished, compareForced).WinnerLabel
	}
	if why := s.parkedFor(); why != "" {
		v.Parked = &why
	}
	for _, a := range s.Agents {
		v.Agents = append(v.Agents, s.viewAgent(a))
	}
	for _, c := range s.Tally() {
		v.Votes[c.Target] = c.Votes
	}
	v.Superseded, v.Completion = s.countSuperseded(), s.completionPercent()
	return v
}

// Voters returns the agents whose votes count, in configured order; never nil.
func (v View) Voters() []string {
	voters := []string{}
	for _, a := range v.Agents {
		if a.Vote != nil && !a.Vote.Stale {
			voters = append(voters, a.ID)
		}
	}
	return voters
}

// FailedAgent is an agent that did not take part to the end.
type FailedAgent struct {
	ID    string  `json:"id"`
	Error Failure `json:"error"`
}

// Failed returns the failed agents, in configured order; never nil.
func (v View) Failed() []FailedAgent {
	failed := []FailedAgent{}
	for _, a := range v.Agents {
		if a.Error != nil {
			failed = append(failed, FailedAgent{ID: a.ID, Error: *a.Error})
		}
	}
	return failed
}

func (s *State) viewAgent(a *agent) AgentView {
	v := AgentView{
		ID:          a.ID,
		Number:      a.Number,
		Status:      a.status(),
		Running:     a.Run != nil && !a.Run.awaitsOthers() && !s.Done(),
		Absent:      a.Absent,
		Step:        a.Step,
		Answers:     len(a.Answers),
		LatestLabel: a.latestLabel(),
		Cost:        a.Usage,
		Error:       a.Error,
	}
	if b := a.Ballot; b != nil {
		v.Vote = &VoteView{Choice: Choice{b.Target, b.TargetLabel, b.Reason, b.Confidence}, Step: b.Step, Stale: !s.isFresh(a)}
	}
	if h := a.Halt; h != nil {
		v.Stop = &StopView{Status: h.Status, Summary: h.Summary, Step: h.Step, Stale: !s.isFresh(a)}
	}
	if v.Evaluation = shallowCopy(a.Judged); v.Evaluation != nil {
		v.Evaluation.Label = a.answerLabel(1 + slices.Index(a.Answers, v.Evaluation.Step))
	}
	if v.Running {
		v.Purpose = a.Run.Launch.Purpose
		if a.Run.Away {
			v.Doing = shallowCopy(a.Run.Out)
		}
	}
	if a.Run.awaitsOthers() && !s.Done() {
		if at := slices.IndexFunc(a.Run.Awaits, func(c Call) bool { return c.Ask != nil }); at >= 0 {
			asks := a.Run.Awaits[at].Ask
			v.Doing = &Doing{Kind: AsksPerson, Since: asks.Since, Until: s.lapseOf(asks), What: truncate(asks.Text)}
		}
	}
	if s.Waiting && s.Majority == nil && a.Away != NoOutage {
		v.Doing = &Doing{Kind: ModelAway, What: a.Error.Message}
	}
	if v.Doing == nil && s.isBeingChecked(a) {
		v.Doing = &Doing{Kind: RunsChecks, What: "checks of " + a.latestLabel()}
	}
	return v
}

func (s *State) viewQuestions() []Question {
	var open []Question
	for _, c := range s.OpenQuestions() {
		asker := slices.IndexFunc(s.Agents, func(a *agent) bool {
			return a.Run != nil && slices.ContainsFunc(a.Run.Awaits, func(o Call) bool { return o.ID == c.ID })
		})
		q := Question{
			QuestionID: c.ID, QuestionKind: c.Ask.Kind, Agent: s.Agents[asker].ID, Text: c.Ask.Text, Why: c.Ask.Why, Options: append([]string{}, c.Ask.Options...),
			Arguments: c.Arguments, Path: c.ArgumentsPath, Since: c.Ask.Since, Until: new(s.lapseOf(c.Ask)),
		}
		if c.Ask.Kind != AskQuestion {
			q.Tool = c.Name
		}
		open = append(open, q)
	}
	return open
}

func (a *agent) status() string {
	switch {
	case a.Error != nil:
		return statusFailed
	case a.Ballot != nil:
		return statusVoted
	case a.Halt != nil:
		return statusStopped
	case a.hasAnswer():
		return statusAnswered
	default:
		return statusNoAction
	}
}

func (s *State) phase() Phase {
	switch {
	case s.Done():
		return PhaseDone
	case s.Round == 0:
		return PhasePreparing
	case s.AwaitsCaller():
		return PhaseWaitingForTools
	case s.AwaitsPerson():
		return PhaseWaitingForPerson
	case s.Finale != nil:
		return PhasePresenting
	case s.Round == 1 || len(s.shownAnswers()) == 0:
		return PhaseInitialAnswers
	default:
		return PhaseCoordinating
	}
}
