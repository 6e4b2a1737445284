package coordination

import (
	"slices"
	"strconv"

	"conclave/engine/llm"
)

// OnRecord is what one agent has done as it is found on record: in a directory
// of steps that somebody else launched, one at a time.
type OnRecord struct {
	Agent   string
	Step    int   // the highest number that is taken
	Steps   int   // steps that ended with an action; what the step limit counts
	Answers []int // steps of its answers
	Base    int   // of them, answers of earlier attempts of the team, which no longer count

	Usage llm.Usage // what its steps have cost

	// Vote and Stop are what stands of it: one of them at most, and none that an
	// answer has withdrawn. Their Launch and Usage are not asked for.
	Vote *Voted
	Stop *Stopped

	Running bool // a step of it is at work
}

// Recall builds the state of a team from what is on record of its members, and
// of what people have said to them. It is the state after a Step of each of
// these actions and before the next Drain, but for what no record tells: who
// failed, and whose answer is how old (rule 41).
//
// Members that nothing is on record of have done nothing; a record of an agent
// that is no member counts for nothing, as does a vote for an agent without an
// answer.
func Recall(c Config, record []OnRecord, said []Message) *State {
	s := New(c)
	s.Messages = slices.Clone(said)
	for _, r := range record {
		if a := s.agent(r.Agent); a != nil {
			s.recallAnswers(a, r)
		}
	}
	// A vote is for an answer, and saw answers: these have to be there first.
	for _, r := range record {
		if a := s.agent(r.Agent); a != nil {
			s.recallEnd(a, r)
		}
	}
	return s
}

func (s *State) recallAnswers(a *Agent, r OnRecord) {
	a.Answers = slices.Compact(slices.Sorted(slices.Values(r.Answers)))
	a.Base = min(max(r.Base, 0), len(a.Answers))
	a.Step = max(r.Step, a.latest())
	a.Steps, a.Rounds, a.Ran = r.Steps, r.Steps, r.Steps > 0
	a.Usage = r.Usage
	s.Round = max(s.Round, a.Rounds)
}

// recallEnd takes the vote or the stop of a, and whether it is at work.
func (s *State) recallEnd(a *Agent, r OnRecord) {
	if v := r.Vote; v != nil {
		if target := s.agent(v.Target); target != nil && target.answered() {
			seen := s.witnessed(v.Seen)
			a.Ballot = &Ballot{
				Target: target.ID, TargetLabel: revision(target, v.TargetLabel, seen), Step: v.Step,
				Reason: truncate(v.Reason), Seen: seen, Heard: s.heard(v.Heard),
			}
			a.Known, a.Heard = seen, a.Ballot.Heard
			s.Cast++
		}
	}
	if e := r.Stop; e != nil {
		a.Halt = &Halt{Status: Complete, Summary: truncate(e.Summary), Step: e.Step, Seen: s.witnessed(e.Seen), Heard: s.heard(e.Heard)}
		if e.Status == Blocked {
			a.Halt.Status = Blocked
		}
		a.Known, a.Heard = a.Halt.Seen, a.Halt.Heard
	}
	if r.Running {
		s.Launches++
		a.Run = &Run{Launch: Launch{ID: LaunchID("l" + strconv.Itoa(s.Launches)), Agent: a.ID, Number: a.Number, After: a.Step}}
	}
}

// Affords reports whether the budget, if there is one, leaves anything to spend.
func (s *State) Affords() bool { return s.affords() }

// LaunchOf launches a step of one agent where somebody else says whose turn it
// is: what it is shown, what it may do, and what it may spend are the protocol's:
// all that is left of the budget. Its round is the agent's own. It is false where no
// action is open to the agent, at its step limit, where nothing is left to spend, and
// where there is no such agent.
func (s *State) LaunchOf(id string) (Launch, bool) {
	a := s.agent(id)
	if a == nil || !s.able(a) || !s.affords() {
		return Launch{}, false
	}
	offered := s.offered(a)
	if len(offered) == 0 {
		return Launch{}, false
	}
	a.Rounds++
	return s.start(a, Launch{Round: a.Rounds, Shown: s.shown(), Offered: offered, Allowance: s.purse(1)}), true
}
