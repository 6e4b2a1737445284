// Rules 86 to 89: evaluations of answers.

package coordination

import "slices"

func (r *roster) atCeiling() bool {
	below := func(a *agent) bool {
		c := a.currentCritique()
		return a.isActive() && (c == nil || !c.Plateau)
	}
	return r.Config.StopAtCeiling && r.countActive() > 0 && !slices.ContainsFunc(r.Agents, below)
}

// launchNext starts the next wave, after the evaluations of its agents' newest answers.
func (w *waves) launchNext() []Launch {
	evaluations, wave := w.startCritiques(w.nextWave())
	return append(evaluations, w.rejoinWave(w.launchWave(wave, false))...)
}

// startCritiques starts the evaluations that precede a wave, and returns the agents to launch at
// the same time. With pacing by rounds there are no such agents beside an evaluation.
func (w *waves) startCritiques(wave []*agent) (launches []Launch, beside []*agent) {
	for _, a := range wave {
		if !w.needsEvaluation(a) {
			beside = append(beside, a)
			continue
		}
		left := a.Left
		launches = append(launches, w.mintLaunch(a, Launch{
			Agent: a.ID, Number: a.Number, Round: max(1, w.roundOf(a)), Purpose: Evaluation, After: a.latestStep(),
			Answers: len(a.Answers), Given: a.answerCount(), Shown: w.shownTo(a), Messages: w.messagesFor(a), Offered: []Action{SubmitEvaluation},
		}))
		a.Left = left
	}
	if len(launches) > 0 && w.Config.Pacing == pacingRounds {
		return launches, nil
	}
	return launches, beside
}

// endCritique handles the end of an evaluation. A failed evaluation is not repeated.
func (s *steps) endCritique(a *agent, run *Launch, event ending) {
	label := a.answerLabel(1 + slices.Index(a.Answers, run.After))
	switch e := event.(type) {
	case Suspended:
		a.Rest = newResumable(run, e.End, e.Token)
		s.note(Entry{Kind: EntrySuspended, Agent: a.ID, Text: "the evaluation of " + label + " was suspended"})
		return
	case Critiqued:
		c := a.keepCritique(Critique{Step: run.After, Verdict: e.Verdict, Scores: e.Scores, Ceiling: e.Ceiling, Tasks: e.Tasks})
		s.note(Entry{Kind: EntryCritiqued, Agent: a.ID, Step: run.After, Label: label, Text: "the evaluation of " + label + ": " + c.text()})
		return
	case Failed:
		s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: run.After, Label: label, Reason: truncate(e.Cause.Message), Text: label + " was not evaluated: " + truncate(e.Cause.Type)})
	default:
		s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: run.After, Label: label, Text: label + " was not evaluated"})
	}
	a.Critique = &Critique{Step: run.After}
}
