// Rules 44 to 48: the final answer.

package coordination

import "slices"

// finale makes the final answer of a decision.
type finale struct{ steps }

func (f *finale) startFinale(d Decision) move {
	for _, a := range f.Agents { // they are away, or a quorum decides without them
		if a.Run != nil {
			d.Cut = append(d.Cut, a.ID)
		}
	}
	by := f.presenterFor(f.agentOf(d.Winner))
	if f.Forced != "" || d.Status == Undecided || by == nil || f.isBudgetSpent() || len(f.shownAnswers()) == 0 {
		return endWith(d) // forced in the same batch, undecided, nobody to present, or no answer
	}
	final := &finalAnswer{Decision: d, Stage: stagePresent, By: by.ID}
	if !f.Config.presentsAnswer() {
		final.Stage = f.afterPresenting()
	}
	if final.Stage == stageOver {
		return endWith(d)
	}
	said := len(f.Messages)
	f.Finale, f.Settled = final, &said
	return f.finalMove()
}

// presenterFor returns the presenter by rule 44, or nil if every candidate has failed.
func (r *roster) presenterFor(winner *agent) *agent {
	if a := r.agentOf(r.Config.Presenter); a.isActive() {
		return a
	}
	for _, a := range slices.Backward(r.Agents) {
		if a.isActive() && (a == winner || r.Config.Mode == Decomposition) {
			return a
		}
	}
	return nil
}

func (f *finale) afterPresenting() stage {
	if len(f.Earlier) < f.Config.MaxRestarts {
		return stageEvaluate
	}
	return stageOver
}

func (f *finale) finalMove() move {
	final := f.Finale
	by := f.agentOf(final.By)
	step := Launch{Round: f.Round}
	switch {
	case f.Forced != "":
		d := final.Decision.clone()
		d.Status = f.Forced
		return endWith(d)
	case f.hasRunningStep() || f.Paused || f.isParked() && !by.Retried:
		return move{}
	case final.Stage == stageOver || f.isBudgetSpent() || !by.isActive() && by.Away != Interrupted:
		return endWith(final.Decision.clone())
	case !by.isActive():
		return f.waitForServers()
	case by.Rest != nil && by.Rest.Launch.Purpose != Coordinate:
		return move{launches: []Launch{f.resumeStep(by)}}
	case final.Stage == stagePresent:
		step.Purpose, step.Offered = Present, []Action{NewAnswer}
		step.Shown, step.Brief = f.shownAnswers(), f.briefOn(final.Decision)
	default:
		answer := f.decidedAnswer(final.Decision)
		step.Purpose, step.Offered, step.Final = Evaluate, []Action{Submit, RestartTeam}, &answer
	}
	return move{launches: []Launch{f.startStep(by, step)}}
}

func (r *roster) decidedAnswer(d Decision) Shown {
	if d.Final != nil {
		return *d.Final
	}
	shown := Shown{Agent: d.Winner, Label: d.WinnerLabel, Step: d.WinnerStep}
	if a := r.agentOf(d.Winner); a != nil {
		shown.Number = a.Number
	}
	return shown
}

func (f *finale) briefOn(d Decision) *Brief {
	b := &Brief{Strategy: f.Config.Strategy}
	if f.Config.decidesByVote() {
		b.Label = d.WinnerLabel
		f.describeVotes(b, d)
	}
	if f.Config.Mode == Decomposition {
		for _, a := range f.byNumber() {
			if a.Halt != nil && a.Halt.Step > 0 { // the session stopped the others
				b.Stops = append(b.Stops, StopNote{Number: a.Number, Status: a.Halt.Status, Summary: a.Halt.Summary})
			}
		}
	}
	return b
}

func (f *finale) describeVotes(b *Brief, d Decision) {
	for _, c := range d.Votes {
		b.Voters += c.Votes
		if c.Target == d.Winner {
			b.Votes = c.Votes
		}
	}
	b.Tied = slices.ContainsFunc(d.Votes, func(c count) bool { return c.Target != d.Winner && c.Votes == b.Votes })
	for _, a := range f.byNumber() {
		if a.Ballot != nil && f.isFresh(a) && a.Ballot.Target == d.Winner && a.Ballot.Reason != "" {
			b.Reasons = append(b.Reasons, a.Ballot.Reason)
		}
	}
}

// endFinaleStep handles the end of a presenting or evaluating step. If nothing was presented, the
// winning answer is final; if no verdict was given, the final answer is submitted.
func (f *finale) endFinaleStep(a *agent, run *Launch, event ending) {
	switch e := event.(type) {
	case Answered:
		if run.Purpose == Present && e.Step > a.Step {
			f.takePresented(a, e)
			f.Finale.Stage = f.afterPresenting()
			return
		}
	case Evaluated:
		if run.Purpose == Evaluate && e.Step > a.Step {
			f.takeJudgement(a, e)
			return
		}
	case Failed:
		f.failStep(a, run, e)
		if f.Config.OnAgentFailure == failurePark {
			return // a person can retry it
		}
		if f.replacePresenter(run, e) || a.Away == Interrupted {
			return
		}
	}
	step := event.endOfStep().Step
	a.Step = max(a.Step, step)
	text := a.ID + " ended without an action; the present answer stands"
	if f.joinsParts(run) {
		text = a.ID + " ended without an action; the parts were not joined, the present answer stands"
	}
	f.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: text})
	if f.Finale.Stage = stageOver; run.Purpose == Present {
		f.Finale.Stage = f.afterPresenting()
	}
}

func (r *roster) joinsParts(run *Launch) bool {
	return run.Purpose == Present && r.Config.Mode == Decomposition
}

// replacePresenter makes another agent the presenter of the parts, if one can.
func (f *finale) replacePresenter(run *Launch, e Failed) bool {
	next := f.presenterFor(nil)
	if !f.joinsParts(run) || next == nil || f.isBudgetSpent() {
		return false
	}
	f.Finale.By = next.ID
	f.note(Entry{
		Kind: EntryRefused, Agent: run.Agent, Step: e.Step, Text: run.Agent + " presented nothing; " + next.ID + " presents instead",
	})
	return true
}

func (f *finale) takePresented(a *agent, e Answered) {
	a.Step = e.Step
	final := Shown{Agent: a.ID, Number: a.Number, Label: FinalLabel(a.Number), Step: e.Step}
	d := &f.Finale.Decision
	d.Final = &final
	if f.Config.Mode == Decomposition { // the presenter wins
		d.Winner, d.WinnerLabel, d.WinnerStep = a.ID, final.Label, e.Step
	}
	f.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: final.Label})
	f.note(Entry{Kind: EntryPresented, Agent: a.ID, Step: e.Step, Label: final.Label, Text: a.ID + " presented the final answer"})
}

func (f *finale) takeJudgement(a *agent, e Evaluated) {
	a.Step = e.Step
	if !e.Again {
		f.Finale.Stage = stageOver
		f.note(Entry{Kind: EntryJudged, Agent: a.ID, Step: e.Step, Text: a.ID + " submits the final answer"})
		return
	}
	f.note(Entry{Kind: EntryJudged, Agent: a.ID, Step: e.Step, Reason: truncate(e.Reason), Text: a.ID + " wants the team to begin again"})
	d := f.Finale.Decision.clone()
	f.Fallback = &d
	f.Earlier = append(f.Earlier, RejectedAnswer{Number: f.attemptNumber(), Answer: f.decidedAnswer(d), Agent: a.ID, Step: e.Step})
	f.Finale, f.Settled, f.Shared, f.Begun = nil, nil, false, f.Round
	for _, a := range f.Agents {
		a.beginAttempt()
	}
}
