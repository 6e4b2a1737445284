// A State from a record: the documents of a directory of steps, or the last record of a session.

package coordination

import (
	"slices"

	"conclave/engine/llm"
)

// OnRecord is the record of one agent in a directory of steps that another program launched, one at a time.
type OnRecord struct {
	Agent   string
	Step    int   // the highest claimed number
	Steps   int   // steps that ended with an action; limited by MaxStepsPerAgent
	Answers []int // steps of its answers
	Base    int   // those of earlier attempts of the team, which no longer count

	Usage llm.Usage // usage of its steps

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
	s := New(c)
	s.Messages = slices.Clone(said)
	for _, r := range record {
		if a := s.agentOf(r.Agent); a != nil {
			s.recallAnswers(a, r)
		}
	}
	// Answers come first, because a vote names answers and has seen them.
	for _, r := range record {
		if a := s.agentOf(r.Agent); a != nil {
			s.recallEnd(a, r)
		}
	}
	return s
}

func (s *State) recallAnswers(a *agent, r OnRecord) {
	s.admitRecorded(a)
	a.Answers = slices.Compact(slices.Sorted(slices.Values(r.Answers)))
	a.Base = min(max(r.Base, 0), len(a.Answers))
	a.Step = max(r.Step, a.latestStep())
	a.Steps, a.Rounds, a.Ran = r.Steps, r.Steps, r.Steps > 0
	a.Usage = r.Usage
	s.Round = max(s.Round, a.Rounds)
}

// recallEnd restores the agent's vote or stop, and its running step.
func (s *State) recallEnd(a *agent, r OnRecord) {
	if v := r.Vote; v != nil {
		if target := s.agentOf(v.Target); target.hasAnswer() {
			s.castVote(a, target, *v, s.boundSeen(v.Seen))
			a.Known, a.Heard = a.Ballot.Seen, a.Ballot.Heard
		}
	}
	if e := r.Stop; e != nil {
		s.haltAgent(a, *e, s.boundSeen(e.Seen))
		a.Known, a.Heard = a.Halt.Seen, a.Halt.Heard
	}
	if r.Running {
		s.mintLaunch(a, Launch{Agent: a.ID, Number: a.Number})
	}
}

// LaunchOf launches a step of an agent after another program has decided that it is the agent's turn. The
// allowance is the rest of the budget, and the round is the agent's own count. It returns false if the team
// has no such agent, no action is open to it, it is at its step limit, or the budget is spent.
func (s *State) LaunchOf(id string) (Launch, bool) {
	a := s.agentOf(id)
	if a == nil || !s.canRun(a) || !s.Affords() {
		return Launch{}, false
	}
	offered := s.offeredActions(a)
	if len(offered) == 0 {
		return Launch{}, false
	}
	a.Rounds++
	return s.startStep(a, Launch{Round: a.Rounds, Shown: s.shownTo(a), Offered: offered, Allowance: s.allowanceFor(1)}), true
}

// Claim is a step on record whose end, or even launch, came after a state was saved. Event ends it; its
// Launch is that of the step.
type Claim struct {
	Agent   string
	Purpose Purpose
	Resumes string // execution token of the step that it resumed; empty for none
	Seen    []Seen // the answers that it was shown at its launch
	Answer  int    // the step of the answer that an evaluation judges; 0 for other steps
	Event   Event
}

// LastAnswer returns the step of an agent's newest answer; 0 without one.
func (r *roster) LastAnswer(agent string) int {
	a := r.agentOf(agent)
	if !a.hasAnswer() {
		return 0
	}
	return a.latestStep()
}

// CatchUp applies the events of the session after its state was saved: messages of people, then steps in
// the order in which they ended. If the state is one that had ended, a later run had reopened it as
// e says. A step whose launch the state lacks counts as launched when it ended.
func (s *State) CatchUp(e Reopened, said []Said, steps []Claim) {
	if s.Done() && len(said)+len(steps) > 0 {
		s.goOn(e)
	}
	for _, m := range said {
		s.addMessage(m)
	}
	for _, c := range steps {
		end, ends := c.Event.(ending)
		if a := s.agentOf(c.Agent); a != nil && ends {
			s.relive(a, c, end.endOfStep().Launch)
			s.Step(c.Event)
		}
	}
}

// relive makes a claimed step the running one of its agent. The answers that it was shown do not
// change, because its journal begins with them.
func (s *State) relive(a *agent, c Claim, id LaunchID) {
	switch {
	case a.Run != nil && a.Run.Launch.ID == id:
		return
	case a.Rest != nil && a.Rest.Token != "" && a.Rest.Token == c.Resumes:
		s.resumeStep(a)
	case c.Purpose == Evaluation:
		left := a.Left // of the agent's own steps
		s.mintLaunch(a, Launch{
			Agent: a.ID, Number: a.Number, Round: max(1, a.Rounds), Purpose: Evaluation, After: c.Answer,
			Answers: len(a.Answers), Given: a.answerCount(), Shown: s.shownTo(a), Messages: s.messagesFor(a), Offered: []Action{SubmitEvaluation},
		})
		a.Left = left
	default:
		s.admitRecorded(a)
		if s.hasNews(a) {
			a.Streak = 0
		}
		a.Rounds++
		s.Round = max(s.Round, a.Rounds)
		s.Shared = s.Shared || s.Config.Secluded && slices.ContainsFunc(c.Seen, func(n Seen) bool { return n.Agent != a.ID })
		s.mintLaunch(a, Launch{
			Agent: a.ID, Number: a.Number, Round: a.Rounds, Purpose: c.Purpose, Answers: len(a.Answers), Given: a.answerCount(),
			Shown: s.shownIn(c.Seen), Messages: s.messagesFor(a), Updates: s.updatesFor(a), Offered: s.openTo(a, c),
		})
	}
	a.Run.Launch.ID = id
}

// openTo returns the actions that were open to a step. An action that it took was open. A step that
// was shown nothing was offered no vote.
func (s *State) openTo(a *agent, c Claim) []Action {
	_, open := c.Event.(Suspended)
	switch {
	case c.Purpose == Present:
		return []Action{NewAnswer}
	case c.Purpose == Evaluate:
		return []Action{Submit, RestartTeam}
	case !open:
		return []Action{NewAnswer, Vote, Stop}
	}
	return slices.DeleteFunc(s.offeredActions(a), func(action Action) bool { return action == Vote && len(c.Seen) == 0 })
}

// shownIn returns the accepted ones of the answers that a step was shown.
func (s *State) shownIn(seen []Seen) []Shown {
	var all []Shown
	for _, peer := range s.byNumber() {
		m := slices.Index(peer.Answers, seenStep(seen, peer.ID))
		if m < 0 {
			continue
		}
		shown := Shown{Agent: peer.ID, Number: peer.Number, Label: peer.answerLabel(m + 1), Step: peer.Answers[m]}
		if shown.Step == peer.latestStep() {
			shown.Seq = peer.Newest
		}
		all = append(all, shown)
	}
	return all
}

// Outline returns the part of the state that is not recorded elsewhere: everything but the timeline, of which
// it has the decision.
func (s *State) Outline() *State {
	o := *s
	o.Recent = slices.DeleteFunc(slices.Clone(s.Recent), func(e Entry) bool { return e.Kind != EntryDecided })
	return &o
}
