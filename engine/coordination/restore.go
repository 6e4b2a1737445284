package coordination

import (
	"slices"

	"conclave/engine/llm"
)

// Lost is the record of a session whose run was cut off before it could save its State.
type Lost struct {
	Ledger []Recorded // entries in order
	Events int        // number of timeline entries on record

	// Preparation is the cost of the preparations before the first step.
	Preparation llm.Usage

	// Rejected are the evaluating steps that had the team begin again, in order.
	Rejected []StepOf

	// Lacking are the committed actions that the ledger does not have, in order.
	Lacking []Recorded

	// Ended are the steps that ended without an action. Evaluations without an outcome are
	// listed as step 0.
	Ended []StepOf

	// Evaluated are the evaluations of answers, in the order of the answers of each agent.
	Evaluated []EvaluationOf

	// Open are the resumable steps that have no action yet, at most one per agent.
	Open []OpenStep
}

// Recorded is an accepted action with the end of its step, whose launch is ignored. Event is
// nil for a message and for a presented answer.
type Recorded struct {
	Accepted
	Event Event
}

// StepOf is a finished step of Agent.
type StepOf struct {
	Agent string
	End
}

// EvaluationOf is the evaluation of an answer of Agent.
type EvaluationOf struct {
	Agent string
	Critique
	Usage llm.Usage
}

// OpenStep is a step to resume. Seen are the answers that it was shown at its launch, and
// Usage is the usage that Ended does not include.
type OpenStep struct {
	Agent string
	Step  int
	Token string
	Seen  []Seen
	Usage llm.Usage
}

// Restore rebuilds the state of a session whose run was cut off. It steps the recorded events
// in the order in which they were accepted. The next Drain records the actions that the
// ledger lacks. Facts without a record start afresh: failures, steps that count without an
// action, revotes.
func Restore(c Config, lost Lost) *State {
	s := New(c)
	s.Preparation = lost.Preparation
	s.replay(lost)
	s.Shared = s.Config.Secluded && slices.ContainsFunc(lost.Ledger, sawPeer)
	s.Pending, s.Recent, s.Events = nil, nil, lost.Events
	for _, r := range lost.Lacking {
		if a := s.agent(r.Agent); a != nil {
			s.enact(a, r.Event)
		}
	}
	for _, e := range lost.Ended {
		if a := s.agent(e.Agent); a != nil {
			s.admit(a)
			a.Step, a.Usage = max(a.Step, e.Step), a.Usage.Add(e.Usage)
		}
	}
	for _, e := range lost.Evaluated {
		if a := s.agent(e.Agent); a != nil {
			a.Usage = a.Usage.Add(e.Usage)
			a.critiqued(e.Critique)
		}
	}
	for _, open := range lost.Open {
		if a := s.agent(open.Agent); a != nil {
			s.reopenStep(a, open)
		}
	}
	return s
}

// replay enacts the ledger and the rejections of the team's attempts.
func (s *State) replay(lost Lost) {
	var final *Shown
	for _, r := range lost.Ledger {
		if n := s.attempt(); r.Attempt > n && n <= len(lost.Rejected) {
			s.reject(lost.Rejected[n-1], final)
			final = nil
		}
		switch a := s.agent(r.Agent); {
		case r.Action == Say:
			s.said(Said{Agent: r.Agent, Text: r.Text})
		case a == nil:
		case IsFinal(r.Label):
			final = &Shown{Agent: a.ID, Number: a.Number, Label: r.Label, Step: r.Step}
			a.Step = max(a.Step, r.Step)
		default:
			s.enact(a, r.Event)
		}
		s.Accepted = r.Seq
	}
	for n := s.attempt(); n <= len(lost.Rejected); n++ {
		s.reject(lost.Rejected[n-1], final)
		final = nil
	}
}

// reopenStep makes a resume an open step, or counts the step's usage if that is impossible.
func (s *State) reopenStep(a *agent, open OpenStep) {
	s.admit(a)
	l, ok := s.openLaunch(a, open)
	if !ok {
		a.Usage, a.Left = a.Usage.Add(open.Usage), open.Token
		return
	}
	s.Round = max(s.Round, l.Round)
	a.Step, a.Rounds = max(a.Step, open.Step), l.Round
	a.Rest = &resumableStep{Launch: l, Token: open.Token, Uncounted: open.Usage.ModelCalls > 0}
}

// enact steps an event as the end of a new launch that was offered every action and shown
// every answer and message.
func (s *State) enact(a *agent, event Event) {
	s.admit(a)
	a.Rounds++
	s.Round = max(s.Round, a.Rounds)
	if s.hasNews(a) {
		a.Streak = 0
	}
	id := s.mint(a, Launch{
		Agent: a.ID, Number: a.Number, Round: a.Rounds, Offered: []Action{NewAnswer, Vote, Stop},
		Shown: s.shown(), Messages: s.messagesFor(a),
	}).ID
	switch e := event.(type) {
	case Answered:
		e.Launch = id
		s.Step(e)
	case Voted:
		e.Launch = id
		s.Step(e)
	case Stopped:
		e.Launch = id
		s.Step(e)
	default: // no other event is in the ledger
	}
	a.Run = nil
}

// reject begins the next attempt of the team.
func (s *State) reject(by StepOf, final *Shown) {
	a := s.agent(by.Agent)
	if a == nil {
		return
	}
	d := s.elect(Plurality, forced)
	d.Final = final
	s.Finale = &finale{Decision: d, Stage: stageEvaluate, By: by.Agent}
	s.evaluated(a, Evaluated{End: by.End, Again: true})
}

// openLaunch returns the launch that resumes the agent's open step. It returns false if the agent
// owes nothing, or if the step was shown an answer that is not accepted.
func (s *State) openLaunch(a *agent, open OpenStep) (Launch, bool) {
	if !s.owes(a) {
		return Launch{}, false
	}
	l := Launch{
		Agent: a.ID, Number: a.Number, Round: a.Rounds + 1, Offered: s.offered(a), Updates: s.updates(a),
		Answers: len(a.Answers), Given: a.answerCount(),
	}
	for _, peer := range s.byNumber() {
		if step := seenStep(open.Seen, peer.ID); step > 0 {
			m := slices.Index(peer.Answers, step)
			if m < 0 {
				return Launch{}, false
			}
			shown := Shown{Agent: peer.ID, Number: peer.Number, Label: peer.label(m + 1), Step: step}
			if step == peer.latest() {
				shown.Seq = peer.Newest
			}
			l.Shown = append(l.Shown, shown)
		}
	}
	if len(l.Shown) == 0 { // it was offered no vote
		l.Offered = slices.DeleteFunc(l.Offered, func(action Action) bool { return action == Vote })
	}
	return l, len(l.Offered) > 0
}

// OnRecord is the record of one agent in a directory of steps that another program
// launched, one at a time.
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
