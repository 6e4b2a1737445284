// Rules 5, 19 to 21 and 72: waves, resumed steps and launches.

package coordination

import (
	"cmp"
	"slices"
	"strconv"
)

// waves launch steps: new ones, those of a next round, and those to resume.
type waves struct{ offers }

// move is the reaction to a batch of events: a decision, launches, a wait, or nothing.
type move struct {
	decision *Decision
	launches []Launch
	wait     *Wait
	checks   []Check
}

func endWith(d Decision) move { return move{decision: &d} }

// nextWave returns the agents to launch. In rounds, these are all agents that owe something, once
// nothing runs. With continuous pacing, they are the agents with news. An agent without news
// is launched only if it may improve its answer alone, if an evaluation has given it tasks,
// or if no other agent runs or can be launched.
func (w *waves) nextWave() []*agent {
	idle := w.isIdle()
	if w.Config.Pacing == pacingRounds && !idle {
		return nil
	}
	ready := w.pickRunnable(func(a *agent) bool { return w.needsLaunch(a) && !w.waitsForPeer(a) && len(w.offeredActions(a)) > 0 })
	if w.Config.Pacing == pacingRounds {
		return ready
	}
	news := slices.DeleteFunc(slices.Clone(ready), func(a *agent) bool { return !w.hasNews(a) && !w.worksAlone(a) })
	if len(news) == 0 && idle {
		return ready
	}
	return news
}

func (w *waves) pickRevoters() []*agent {
	return w.pickRunnable(func(a *agent) bool { return len(w.offeredActions(a)) > 0 })
}

// launchWave starts a step of each agent, in configured order, as far as shared limits allow.
// Rounds are waves; with continuous pacing each agent counts its own rounds, and the
// session's round is the highest of them.
func (w *waves) launchWave(agents []*agent, revote bool) []Launch {
	if len(agents) == 0 {
		return nil
	}
	before, newest := w.Round, w.Round
	var launches []Launch
	for _, a := range agents {
		offered := w.offeredActions(a, agents...) // before the round is counted
		if len(offered) == 0 {
			continue
		}
		a.Rounds++
		round := a.Rounds
		if w.Config.Pacing == pacingRounds {
			round = before + 1
		}
		newest = max(newest, round)
		if w.hasNews(a) {
			a.Streak = 0
		}
		launches = append(launches, w.startStep(a, Launch{
			Round: round, Shown: w.shownTo(a), Offered: offered,
			Updates: w.updatesFor(a), Revote: revote,
		}))
	}
	w.Round = newest
	w.noteRound(before, len(launches), revote)
	return launches
}

func (w *waves) noteRound(before, launched int, revote bool) {
	switch {
	case revote:
		w.Revotes++
		w.note(Entry{Kind: EntryRevote, Text: "round " + strconv.Itoa(w.Round) + ": the vote was split, everybody votes again"})
	case w.Round > before:
		w.note(Entry{Kind: EntryRound, Text: "round " + strconv.Itoa(w.Round) + ": " + strconv.Itoa(launched) + " launched"})
	}
}

func (w *waves) resumableAgents() []*agent {
	return w.pickRunnable(func(a *agent) bool {
		if a.Rest != nil && a.Rest.Launch.Purpose.isOfFinale() {
			return false
		}
		return a.Retried || !w.isParked() && (a.Rest != nil || a.Again)
	})
}

// relaunchSteps resumes steps. If an action is no longer open to one, a new step replaces it in the
// same round.
func (w *waves) relaunchSteps(agents []*agent) []Launch {
	if !w.Affords() {
		return nil
	}
	var launches []Launch
	for _, a := range agents {
		if a.Rest != nil && a.Rest.Launch.Purpose == Evaluation {
			launches = append(launches, w.resumeStep(a))
			continue
		}
		offered := w.offeredActions(a)
		if len(offered) == 0 {
			a.Again, a.Retried, a.Rest, a.Left = false, false, nil, a.filesFrom() // it waits for the next wave
			continue
		}
		if a.Rest != nil && a.Rest.Launch.fitsIn(offered) {
			launches = append(launches, w.resumeStep(a))
			continue
		}
		if w.hasNews(a) {
			a.Streak = 0
		}
		launches = append(launches, w.startStep(a, Launch{
			Round: max(1, w.roundOf(a)), Shown: w.shownTo(a), Offered: offered,
			Updates: w.updatesFor(a), Revote: a.Retried && w.isFresh(a),
		}))
	}
	return launches
}

func (w *waves) startStep(a *agent, l Launch) Launch {
	l.Agent, l.Number, l.Answers, l.Given = a.ID, a.Number, len(a.Answers), a.answerCount()
	l.Messages = w.messagesFor(a)
	l.FilesFrom = a.filesFrom()
	if w.Config.Ballot != ballotText && l.mayTake(Vote) {
		l.Checks = w.tableFor(&w.roster, l.Shown)
	}
	if n := len(w.Earlier); n > 0 {
		l.Previous = &w.Earlier[n-1]
	}
	if l.Purpose == Coordinate {
		l.Critique = shallowCopy(a.currentCritique())
	}
	return w.mintLaunch(a, l)
}

// resumeStep launches the agent's suspended or failed step again. The shown answers do not change,
// since the step's journal begins with them; the allowance is computed anew.
func (w *waves) resumeStep(a *agent) Launch {
	l := a.Rest.Launch
	l.Allowance = Allowance{}
	if a.Rest.Token != "" {
		l.ResumeFrom, l.Uncounted = a.Rest.Token, a.Rest.Uncounted
	}
	return w.mintLaunch(a, l)
}

func (w *waves) mintLaunch(a *agent, l Launch) Launch {
	w.Launches++
	l.ID = LaunchID("l" + strconv.Itoa(w.Launches))
	if l.Purpose != Evaluation {
		l.After = a.Step
	}
	l.LongestCall = w.LongestCall
	a.Again, a.Retried, a.Rest, a.Left = false, false, nil, ""
	a.Run = &runningStep{Launch: l.clone()}
	return l.clone()
}

func (w *waves) sortLaunches(launches []Launch) []Launch {
	slices.SortStableFunc(launches, func(x, y Launch) int { return cmp.Compare(w.indexOf(x.Agent), w.indexOf(y.Agent)) })
	return launches
}

func (o *offers) worksAlone(a *agent) bool {
	return (o.Config.Solo || o.isSecluded() || a.hasTasks() || o.needsEvaluation(a)) && slices.Contains(o.offeredActions(a), NewAnswer)
}

// needsEvaluation reports whether the agent's newest answer has to be evaluated before its next step.
func (o *offers) needsEvaluation(a *agent) bool {
	due := o.Config.Critiques && a.hasAnswer() && (a.Critique == nil || a.Critique.Step != a.latestStep())
	return due && slices.Contains(o.offeredActions(a), NewAnswer)
}
