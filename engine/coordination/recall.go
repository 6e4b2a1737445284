package coordination

import (
	"slices"

	"conclave/engine/llm"
)

// OnRecord is the record of one agent in a directory of steps that another program
// launched, one at a time.
type OnRecord struct {
	Agent   string
	Step    int   // the highest claimed number
	Steps   int   // steps that ended with an action; limited by MaxStepsPerAgent
	Answers []int // steps of its answers
	Base    int   // those of earlier attempts of the team, which no longer count

	Usage llm.Usage // of its steps

	// Vote or Stop is the action that no later answer has withdrawn; at most one is set.
	// Their Launch and Usage are ignored.
	Vote *Voted
	Stop *Stopped

	Running bool // a step of it is running
}

// Recall builds the state of a team from the records of its agents and the messages to them.
// The result equals the state after stepping each of these actions, before the next Drain,
// except for facts that records do not have: failures, and the order of answers (rule 41).
//
// An agent without a record has done nothing. Records of other agents are ignored, as are
// votes for agents without an answer.
func Recall(c Config, record []OnRecord, said []Message) *State {
	s := New(Protocol, c)
	s.Messages = slices.Clone(said)
	for _, r := range record {
		if a := s.agent(r.Agent); a != nil {
			s.recallAnswers(a, r)
		}
	}
	// Answers come first, because a vote names answers and has seen them.
	for _, r := range record {
		if a := s.agent(r.Agent); a != nil {
			s.recallEnd(a, r)
		}
	}
	return s
}

func (s *State) recallAnswers(a *agent, r OnRecord) {
	s.admit(a)
	a.Answers = slices.Compact(slices.Sorted(slices.Values(r.Answers)))
	a.Base = min(max(r.Base, 0), len(a.Answers))
	a.Step = max(r.Step, a.latest())
	a.Steps, a.Rounds, a.Ran = r.Steps, r.Steps, r.Steps > 0
	a.Usage = r.Usage
	s.Round = max(s.Round, a.Rounds)
}

// recallEnd restores the agent's vote or stop, and its running step.
func (s *State) recallEnd(a *agent, r OnRecord) {
	if v := r.Vote; v != nil {
		if target := s.agent(v.Target); target.answered() {
			s.cast(a, target, *v, s.boundSeen(v.Seen))
			a.Known, a.Heard = a.Ballot.Seen, a.Ballot.Heard
		}
	}
	if e := r.Stop; e != nil {
		s.halt(a, *e, s.boundSeen(e.Seen))
		a.Known, a.Heard = a.Halt.Seen, a.Halt.Heard
	}
	if r.Running {
		s.mint(a, Launch{Agent: a.ID, Number: a.Number})
	}
}

// LaunchOf launches a step of an agent after another program has decided that it is the
// agent's turn. The allowance is the rest of the budget, and the round is the agent's own
// count. It returns false if the team has no such agent, no action is open to it, it is at
// its step limit, or the budget is spent.
func (s *State) LaunchOf(id string) (Launch, bool) {
	a := s.agent(id)
	if a == nil || !s.able(a) || !s.Affords() {
		return Launch{}, false
	}
	offered := s.offered(a)
	if len(offered) == 0 {
		return Launch{}, false
	}
	a.Rounds++
	return s.start(a, Launch{Round: a.Rounds, Shown: s.shownTo(a), Offered: offered, Allowance: s.allowance(1)}), true
}
