package coordination

import (
	"slices"
	"strconv"
	"time"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// View is the state JSON of the public contract without session_id and query. Other types
// embed and marshal it.
type View struct {
	Phase      Phase          `json:"phase"`
	Paused     bool           `json:"paused"`
	Parked     *string        `json:"parked"` // the remedy and the failures; null while it is not parked
	Round      int            `json:"round"`
	Agents     []AgentView    `json:"agents"` // agents in configured order
	Votes      map[string]int `json:"votes"`  // fresh votes by target
	Winner     string         `json:"winner"` // agent ID, empty until there is one
	Cost       llm.Usage      `json:"cost"`
	Events     int            `json:"events"`
	Superseded int            `json:"superseded_votes"`  // accepted votes that were replaced, withdrawn or voided
	Completion int            `json:"completion"`        // percentage of active agents that owe nothing; 100 only when the session is done
	Attempt    int            `json:"attempt"`           // number of the team's attempt, from 1
	Messages   int            `json:"messages"`          // number of messages from people
	Calls      []Call         `json:"calls,omitempty"`   // calls of the caller's tools without a result
	Reported   llm.Usage      `json:"reported,omitzero"` // the cost when the caller was last asked
}

// AgentView is one agent in a View.
type AgentView struct {
	ID          string    `json:"id"`
	Number      int       `json:"number"`
	Status      string    `json:"status"`
	Running     bool      `json:"running"`
	Absent      bool      `json:"absent,omitempty"` // it has not joined the staged team
	Doing       *Doing    `json:"doing"`            // nil for a running step, whose activity only its worker knows
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
	Target      string `json:"target"`
	TargetLabel string `json:"target_label"`
	Step        int    `json:"step"`
	Stale       bool   `json:"stale"`
	Reason      string `json:"reason"` // truncated to 280 characters

	Confidence *float64 `json:"confidence,omitempty"` // confidence from 0 to 1
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
	PhasePreparing       Phase = "preparing"       // the time before the first launch
	PhaseInitialAnswers  Phase = "initial_answers" // the first wave, and later ones while there is no answer
	PhaseCoordinating    Phase = "coordinating"
	PhaseWaitingForTools Phase = "waiting_for_tools" // nothing runs until the caller returns results
	PhasePresenting      Phase = "presenting"        // a step presents or judges the final answer
	PhaseDone            Phase = "done"
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

		Paused: s.Paused, Attempt: s.attempt(), Messages: len(s.Messages),
	}
	v.Reported = s.Reported
	if !s.Done() {
		v.Calls = s.OpenCalls()
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
	v.Superseded, v.Completion = s.superseded(), s.completion()
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

func (s *State) superseded() int {
	return s.Cast - len(s.agents(func(a *agent) bool { return a.Ballot != nil }))
}

func (s *State) completion() int {
	if s.Done() && s.Outcome.Status != Cancelled {
		return 100
	}
	active := s.active()
	if active == 0 {
		return 0
	}
	return min(99, 100*(active-s.abstentions())/active)
}

func (s *State) viewAgent(a *agent) AgentView {
	v := AgentView{
		ID:          a.ID,
		Number:      a.Number,
		Status:      a.status(),
		Running:     a.Run != nil && !a.Run.waits() && !s.Done(),
		Absent:      a.Absent,
		Step:        a.Step,
		Answers:     len(a.Answers),
		LatestLabel: a.latestLabel(),
		Cost:        a.Usage,
		Error:       a.Error,
	}
	if b := a.Ballot; b != nil {
		v.Vote = &VoteView{Target: b.Target, TargetLabel: b.TargetLabel, Step: b.Step, Stale: !s.fresh(a), Reason: b.Reason, Confidence: b.Confidence}
	}
	if h := a.Halt; h != nil {
		v.Stop = &StopView{Status: h.Status, Summary: h.Summary, Step: h.Step, Stale: !s.fresh(a)}
	}
	if v.Evaluation = shallow(a.Judged); v.Evaluation != nil {
		v.Evaluation.Label = a.label(1 + slices.Index(a.Answers, v.Evaluation.Step))
	}
	if v.Running {
		v.Purpose = a.Run.Launch.Purpose
	}
	if s.Waiting && s.Majority == nil && a.Away != NoOutage {
		v.Doing = &Doing{Kind: ModelAway, What: a.Error.Message}
	}
	if v.Doing == nil && s.isChecked(a) {
		v.Doing = &Doing{Kind: RunsChecks, What: "checks of " + a.latestLabel()}
	}
	return v
}

func (a *agent) status() string {
	switch {
	case a.Error != nil:
		return statusFailed
	case a.Ballot != nil:
		return statusVoted
	case a.Halt != nil:
		return statusStopped
	case a.answered():
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
	case s.Finale != nil:
		return PhasePresenting
	case s.Round == 1 || len(s.shown()) == 0:
		return PhaseInitialAnswers
	default:
		return PhaseCoordinating
	}
}

// Entry is one line of the timeline.
type Entry struct {
	Seq    int    `json:"seq"`   // number of the entry, from 1
	Round  int    `json:"round"` // wave it happened in, 0 before the first
	Kind   string `json:"kind"`
	Agent  string `json:"agent,omitempty"`
	Step   int    `json:"step,omitempty"`
	Label  string `json:"label,omitempty"`  // label of the answer or of the vote's target; of update_injected the labels of all answers, with spaces between
	Target string `json:"target,omitempty"` // target of a vote
	Reason string `json:"reason,omitempty"` // reason of the vote, stop or failure, or the message; truncated to 280 characters
	Text   string `json:"text"`             // text for people, without the reason

	Time time.Time `json:"time,omitzero"` // set by State.Stamp
}

// Revote reports whether the entry begins a round that repeats a split vote.
func (e Entry) Revote() bool { return e.Kind == EntryRevote }

// Ignored reports whether the entry describes an event that changed nothing.
func (e Entry) Ignored() bool { return e.Kind == EntryIgnored }

// The kinds of timeline entries.
const (
	EntryRound     = "round"
	EntryRevote    = "revote"
	EntryInjected  = "update_injected" // answers reached the step while it worked
	EntryAnswer    = "answer"
	EntryVote      = "vote"
	EntryStopped   = "stopped"   // the agent's part is complete or blocked
	EntryRefused   = "refused"   // the step ended without an accepted action
	EntrySuspended = "suspended" // the step was cancelled and can be resumed
	EntryRestarted = "restarted" // the step ended itself for news
	EntryFailed    = "failed"
	EntryRetried   = "retried"
	EntryWaiting   = "waiting"  // every model server is away
	EntryRevealed  = "revealed" // secluded agents are shown all answers
	entrySaid      = "said"     // a person's message
	EntryPaused    = "paused"
	EntryResumed   = "resumed"
	entryAsked     = "asked"
	entryDrafted   = "drafted"   // criteria, personas or subtasks were made
	EntryCritiqued = "critiqued" // the evaluation of an answer
	EntryPresented = "presented"
	EntryJudged    = "judged"
	EntryDecided   = "decided"
	EntryCancelled = "cancelled"
	EntryReopened  = "reopened"
	EntryChecked   = "checked"
	EntryJoined    = "joined"  // the agent joins the staged team
	EntryIgnored   = "ignored" // a stale or impossible event, which changed nothing
)

// The timeline keeps its newest entries, and older ones for as long as a polling client may
// need them. mostEntries bounds the payload of continue-as-new.
const (
	keptEntries    = 50
	keptFor        = 15 * time.Second
	mostEntries    = 500
	keptCharacters = 280 // longest text of an agent, in characters
)

// DecidedAt returns the time of the last decision, or zero if the timeline has none.
func (s *State) DecidedAt() time.Time {
	for _, e := range slices.Backward(s.Timeline()) {
		if e.Kind == EntryDecided {
			return e.Time
		}
	}
	return time.Time{}
}

// Timeline returns the newest entries, oldest first: the last 50, and all of the last 15
// seconds, but at most 500.
func (s *State) Timeline() []Entry {
	if len(s.Recent) == 0 {
		return []Entry{}
	}
	return slices.Clone(s.Recent)
}

// Stamp sets the time of events and ledger entries that have none. The state has no clock, so
// the driver calls it after Step and Drain.
func (s *State) Stamp(now time.Time) {
	for i := range s.Recent {
		if s.Recent[i].Time.IsZero() {
			s.Recent[i].Time = now
		}
	}
	old := slices.IndexFunc(s.Recent, func(e Entry) bool { return now.Sub(e.Time) < keptFor })
	if old < 0 {
		old = len(s.Recent)
	}
	s.Recent = slices.Delete(s.Recent, 0, max(0, min(old, len(s.Recent)-keptEntries)))
	for i := range s.Pending {
		if s.Pending[i].Time.IsZero() {
			s.Pending[i].Time = now
		}
	}
}

func (s *State) note(e Entry) {
	s.Events++
	e.Seq, e.Round = s.Events, s.Round
	if len(s.Recent) == mostEntries {
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
	s.Recent = append(s.Recent, e)
}

func quoted(text string) string { return strconv.Quote(truncate(text)) }

// truncate keeps the first 280 characters of an agent's text.
func truncate(s string) string { return text.HeadRunes(s, keptCharacters) }
