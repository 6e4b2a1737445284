package coordination

import "slices"

// finale is a decision whose final answer is in progress.
type finale struct {
	Decision Decision `json:"decision"`
	Stage    stage    `json:"stage"`
	By       string   `json:"by"` // the presenter, who also judges
}

// stage is the progress of a finale.
type stage string

// The stages of a finale.
const (
	stagePresent  stage = "present"
	stageEvaluate stage = "evaluate"
	stageOver     stage = "over"
)

// conclude starts the final answer of a decision that was not forced, if the team presents
// one.
func (s *State) conclude(d Decision) move {
	for _, a := range s.Agents { // they are away, or a quorum decides without them
		if a.Run != nil {
			d.Cut = append(d.Cut, a.ID)
		}
	}
	by := s.presenter(s.agent(d.Winner))
	if s.Forced != "" || d.Status == Undecided || by == nil || s.spent() || len(s.shown()) == 0 {
		return decided(d) // forced in the same batch, undecided, nobody to present, or no answer
	}
	f := &finale{Decision: d, Stage: stagePresent, By: by.ID}
	if !s.Config.presents() {
		f.Stage = s.afterPresenting()
	}
	if f.Stage == stageOver {
		return decided(d)
	}
	said := len(s.Messages)
	s.Finale, s.Settled = f, &said
	return s.finale()
}

// presenter returns the presenter by rule 44, or nil if every candidate has failed.
func (s *State) presenter(winner *agent) *agent {
	if a := s.agent(s.Config.Presenter); a.active() {
		return a
	}
	for _, a := range slices.Backward(s.Agents) {
		if a.active() && (a == winner || s.Config.Mode == Decomposition) {
			return a
		}
	}
	return nil
}

// afterPresenting returns the stage that follows the final answer. The answer is evaluated if
// the team may begin again.
func (s *State) afterPresenting() stage {
	if len(s.Earlier) < s.Config.MaxRestarts {
		return stageEvaluate
	}
	return stageOver
}

// finale returns the next move of a session with a finale.
func (s *State) finale() move {
	f := s.Finale
	by := s.agent(f.By)
	step := Launch{Round: s.Round}
	switch {
	case s.Forced != "":
		d := f.Decision.clone()
		d.Status = s.Forced
		return decided(d)
	case s.running() || s.Paused || s.parked() && !by.Retried:
		return move{}
	case f.Stage == stageOver || s.spent() || !by.active() && by.Away != Interrupted:
		return decided(f.Decision.clone())
	case !by.active():
		return s.wait()
	case by.Rest != nil && by.Rest.Launch.Purpose != Coordinate:
		return move{launches: []Launch{s.resume(by)}}
	case f.Stage == stagePresent:
		step.Purpose, step.Offered = Present, []Action{NewAnswer}
		step.Shown, step.Brief = s.shown(), s.brief(f.Decision)
	default:
		final := f.Decision.answer(s)
		step.Purpose, step.Offered, step.Final = Evaluate, []Action{Submit, RestartTeam}, &final
	}
	return move{launches: []Launch{s.start(by, step)}}
}

// answer returns the presented answer, or else the winner's.
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

// brief describes a decision to its presenter.
func (s *State) brief(d Decision) *Brief {
	b := &Brief{Strategy: s.Config.Strategy}
	if s.Config.votes() {
		b.Label = d.WinnerLabel
		s.describeVotes(b, d)
	}
	if s.Config.Mode == Decomposition {
		for _, a := range s.byNumber() {
			if a.Halt != nil && a.Halt.Step > 0 { // the session stopped the others
				b.Stops = append(b.Stops, StopNote{Number: a.Number, Status: a.Halt.Status, Summary: a.Halt.Summary})
			}
		}
	}
	return b
}

// describeVotes adds the votes and the reasons of the winner's voters to a brief.
func (s *State) describeVotes(b *Brief, d Decision) {
	for _, c := range d.Votes {
		b.Voters += c.Votes
		if c.Target == d.Winner {
			b.Votes = c.Votes
		}
	}
	b.Tied = slices.ContainsFunc(d.Votes, func(c count) bool { return c.Target != d.Winner && c.Votes == b.Votes })
	for _, a := range s.byNumber() {
		if a.Ballot != nil && s.fresh(a) && a.Ballot.Target == d.Winner && a.Ballot.Reason != "" {
			b.Reasons = append(b.Reasons, a.Ballot.Reason)
		}
	}
}

// finaleEnd handles the end of a presenting or evaluating step. If nothing was presented, the
// winning answer is final; if no verdict was given, the final answer is submitted.
func (s *State) finaleEnd(a *agent, run *Launch, event ending) {
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
		if s.Config.OnAgentFailure == failurePark {
			return // a person can retry it
		}
		if s.standsIn(run, e) || a.Away == Interrupted {
			return
		}
	}
	step := event.end().Step
	a.Step = max(a.Step, step)
	text := a.ID + " ended without an action; the present answer stands"
	if s.joins(run) {
		text = a.ID + " ended without an action; the parts were not joined, the present answer stands"
	}
	s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: text})
	if f.Stage = stageOver; run.Purpose == Present {
		f.Stage = s.afterPresenting()
	}
}

// joins reports whether a step joins the parts of a decomposition.
func (s *State) joins(run *Launch) bool {
	return run.Purpose == Present && s.Config.Mode == Decomposition
}

// standsIn makes another agent the presenter of the parts. It returns false if no other
// agent can or the budget is spent.
func (s *State) standsIn(run *Launch, e Failed) bool {
	next := s.presenter(nil)
	if !s.joins(run) || next == nil || s.spent() {
		return false
	}
	s.Finale.By = next.ID
	s.note(Entry{
		Kind: EntryRefused, Agent: run.Agent, Step: e.Step, Text: run.Agent + " presented nothing; " + next.ID + " presents instead",
	})
	return true
}

func (s *State) presented(a *agent, e Answered) {
	a.Step = e.Step
	final := Shown{Agent: a.ID, Number: a.Number, Label: FinalLabel(a.Number), Step: e.Step}
	d := &s.Finale.Decision
	d.Final = &final
	if s.Config.Mode == Decomposition { // the presenter wins
		d.Winner, d.WinnerLabel, d.WinnerStep = a.ID, final.Label, e.Step
	}
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: final.Label})
	s.note(Entry{Kind: EntryPresented, Agent: a.ID, Step: e.Step, Label: final.Label, Text: a.ID + " presented the final answer"})
}

func (s *State) evaluated(a *agent, e Evaluated) {
	a.Step = e.Step
	if !e.Again {
		s.Finale.Stage = stageOver
		s.note(Entry{Kind: EntryJudged, Agent: a.ID, Step: e.Step, Text: a.ID + " submits the final answer"})
		return
	}
	s.note(Entry{Kind: EntryJudged, Agent: a.ID, Step: e.Step, Reason: truncate(e.Reason), Text: a.ID + " wants the team to begin again"})
	d := s.Finale.Decision.clone()
	s.Fallback = &d
	s.Earlier = append(s.Earlier, RejectedAnswer{Number: s.attempt(), Answer: d.answer(s), Agent: a.ID, Step: e.Step})
	s.Finale, s.Settled, s.Shared, s.Begun = nil, nil, false, s.Round
	for _, a := range s.Agents {
		a.begin()
	}
}

// begin starts a new attempt of the team for the agent. Step numbers, labels and usage
// continue; its answers, vote and stop no longer count.
func (a *agent) begin() {
	a.Base, a.Newest, a.Steps, a.Streak, a.Begun = len(a.Answers), 0, 0, 0, a.Rounds
	a.Ballot, a.Halt, a.Known, a.Rest, a.Left = nil, nil, nil, nil, ""
	a.Ran, a.Again, a.Retried = false, false, false
	a.Digest, a.First, a.Copied, a.Critique, a.Judged, a.Verdicts = Digest{}, Digest{}, false, nil, nil, ""
}
