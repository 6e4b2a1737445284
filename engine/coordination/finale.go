package coordination

import "slices"

// Finale is a decision on its way to the final answer.
type Finale struct {
	Decision Decision `json:"decision"`
	Stage    Stage    `json:"stage"`
	By       string   `json:"by"` // who presents and judges
}

// Stage is what a finale waits for.
type Stage string

// The stages of a finale.
const (
	StagePresent  Stage = "present"
	StageEvaluate Stage = "evaluate"
	StageOver     Stage = "over"
)

// conclude makes the final answer of a decision that the team came to by
// itself. A forced one stands at once: there is nothing left to make it with.
func (s *State) conclude(d Decision) move {
	by := s.presenter(s.agent(d.Winner))
	switch {
	case s.Forced != "": // asked for in the same batch: the consensus stands, and at once
		return decided(d)
	case by == nil || s.spent() || len(s.shown()) == 0: // the last is an attempt that came to nothing
		return decided(d)
	}
	f := &Finale{Decision: d, Stage: StagePresent, By: by.ID}
	if !s.Config.presents() {
		f.Stage = s.afterPresenting()
	}
	if f.Stage == StageOver {
		return decided(d)
	}
	said := len(s.Messages)
	s.Finale, s.Settled = f, &said
	return s.finale()
}

// presenter is who makes the final answer of winner, of those that have not
// failed: the agent configured for it; else, in decomposition, the last one
// configured, and otherwise the winner. Nil if there is none.
func (s *State) presenter(winner *Agent) *Agent {
	candidates := []*Agent{s.agent(s.Config.Presenter)}
	if s.Config.Mode == Decomposition {
		for i := range s.Agents {
			candidates = append(candidates, &s.Agents[len(s.Agents)-1-i])
		}
	} else {
		candidates = append(candidates, winner)
	}
	i := slices.IndexFunc(candidates, func(a *Agent) bool { return a != nil && a.active() })
	if i < 0 {
		return nil
	}
	return candidates[i]
}

// afterPresenting is what follows the final answer: it is judged as long as the
// team may begin again.
func (s *State) afterPresenting() Stage {
	if len(s.Earlier) < s.Config.MaxRestarts {
		return StageEvaluate
	}
	return StageOver
}

// finale is the next move of a session that is decided and not done.
func (s *State) finale() move {
	f := s.Finale
	by := s.agent(f.By)
	switch {
	case s.Forced != "":
		d := f.Decision.clone()
		d.Status = s.Forced
		return decided(d)
	case s.running() || s.Paused || s.parked() && !by.Retried:
		return move{}
	case f.Stage == StageOver || !by.active() || s.spent():
		return decided(f.Decision.clone())
	case by.Rest != nil && by.Rest.Launch.Purpose != Coordinate:
		return move{launches: []Command{s.resume(by)}}
	case f.Stage == StagePresent:
		return move{launches: []Command{s.start(by, s.presenting(f.Decision))}}
	}
	final := f.Decision.answer(s)
	return move{launches: []Command{s.start(by, Launch{
		Purpose: Evaluate, Round: s.Round, Final: &final, Offered: []Action{Submit, RestartTeam},
	})}}
}

// answer is what the decision comes to: the presented answer, or the winner's.
func (d Decision) answer(s *State) Shown {
	if d.Final != nil {
		return *d.Final
	}
	shown := Shown{Agent: d.Winner, Label: d.WinnerLabel, Step: d.WinnerStep}
	if a := s.agent(d.Winner); a != nil {
		shown.Number = a.Number
	}
	return shown
}

// presenting is the launch of the step that makes the final answer.
func (s *State) presenting(d Decision) Launch {
	return Launch{
		Purpose: Present, Round: s.Round, Shown: s.shown(), Offered: []Action{NewAnswer},
		Brief: s.brief(d),
	}
}

// brief describes a decision to its presenter.
func (s *State) brief(d Decision) *Brief {
	v := &Brief{Strategy: s.Config.Strategy}
	if s.Config.votes() {
		v.Label = d.WinnerLabel
		s.count(v, d)
	}
	if s.Config.Mode == Decomposition {
		for _, a := range s.byNumber() {
			if a.Halt != nil && a.Halt.Step > 0 { // the others were not asked
				v.Stops = append(v.Stops, StopNote{Number: a.Number, Status: a.Halt.Status, Summary: a.Halt.Summary})
			}
		}
	}
	return v
}

func (s *State) count(v *Brief, d Decision) {
	for _, c := range d.Votes {
		v.Voters += c.Votes
		if c.Target == d.Winner {
			v.Votes = c.Votes
		}
	}
	v.Tied = slices.ContainsFunc(d.Votes, func(c Count) bool { return c.Target != d.Winner && c.Votes == v.Votes })
	for _, a := range s.byNumber() {
		if a.Ballot != nil && s.fresh(a) && a.Ballot.Target == d.Winner && a.Ballot.Reason != "" {
			v.Reasons = append(v.Reasons, a.Ballot.Reason)
		}
	}
}

// byNumber are the agents in the order of the anonymous numbers.
func (s *State) byNumber() []*Agent {
	agents := make([]*Agent, len(s.Agents))
	for i := range s.Agents {
		agents[s.Agents[i].Number-1] = &s.Agents[i]
	}
	return agents
}

// finaleEnd takes the end of a presenting or judging step. Whatever it comes
// to, the session goes on: without a presented answer the winning one stands,
// without a judgement the final answer does.
func (s *State) finaleEnd(a *Agent, run *Launch, event ending) {
	f := s.Finale
	switch e := event.(type) {
	case Answered:
		if run.Purpose == Present && e.Step > a.Step {
			s.presented(a, e)
			f.Stage = s.afterPresenting()
			return
		}
	case Evaluated:
		if run.Purpose == Evaluate && e.Step > a.Step {
			s.evaluated(a, e)
			return
		}
	case Failed:
		s.failed(a, run, e)
		if s.Config.OnAgentFailure == FailurePark {
			return // it can be retried
		}
		if s.standsIn(run, e) {
			return
		}
	}
	step := event.end().Step
	a.Step = max(a.Step, step)
	text := a.ID + " came to no final word; what there is stands"
	if s.joins(run) {
		text = a.ID + " came to no final word; the parts were not joined, what there is stands"
	}
	s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: text})
	if f.Stage = StageOver; run.Purpose == Present {
		f.Stage = s.afterPresenting()
	}
}

// joins reports whether a step was to join the parts. Where the team does not
// divide the work there is an answer that can stand as it is.
func (s *State) joins(run *Launch) bool {
	return run.Purpose == Present && s.Config.Mode == Decomposition
}

// standsIn has another agent join the parts when the presenter failed, if there
// is one, and anything left to pay it with.
func (s *State) standsIn(run *Launch, e Failed) bool {
	next := s.presenter(nil)
	if !s.joins(run) || next == nil || s.spent() {
		return false
	}
	s.Finale.By = next.ID
	s.note(Entry{
		Kind: EntryRefused, Agent: run.Agent, Step: e.Step, Text: run.Agent + " came to no final word; " + next.ID + " presents instead",
	})
	return true
}

func (s *State) presented(a *Agent, e Answered) {
	a.Step = e.Step
	final := Shown{Agent: a.ID, Number: a.Number, Label: a.finalLabel(), Step: e.Step}
	d := &s.Finale.Decision
	d.Final = &final
	if s.Config.Mode == Decomposition { // the winner is the presenter
		d.Winner, d.WinnerLabel, d.WinnerStep = a.ID, final.Label, e.Step
	}
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: final.Label})
	s.note(Entry{Kind: EntryPresented, Agent: a.ID, Step: e.Step, Label: final.Label, Text: a.ID + " presented the final answer"})
}

func (s *State) evaluated(a *Agent, e Evaluated) {
	a.Step = e.Step
	if !e.Again {
		s.Finale.Stage = StageOver
		s.note(Entry{Kind: EntryJudged, Agent: a.ID, Step: e.Step, Text: a.ID + " submits the final answer"})
		return
	}
	s.note(Entry{Kind: EntryJudged, Agent: a.ID, Step: e.Step, Reason: truncate(e.Reason), Text: a.ID + " wants the team to begin again"})
	d := s.Finale.Decision.clone()
	s.Fallback = &d
	s.Earlier = append(s.Earlier, Attempt{Number: s.attempt(), Answer: d.answer(s), Agent: a.ID, Step: e.Step})
	s.Finale, s.Settled = nil, nil
	for i := range s.Agents {
		s.Agents[i].begin()
	}
}

// begin starts a new attempt for the agent. Its steps and labels count on, and
// what it has spent; nothing that it said does.
func (a *Agent) begin() {
	a.Base, a.Newest, a.Steps, a.Streak = len(a.Answers), 0, 0, 0
	a.Ballot, a.Halt, a.Known, a.Rest = nil, nil, nil, nil
	a.Ran, a.Again, a.Retried = false, false, false
}
