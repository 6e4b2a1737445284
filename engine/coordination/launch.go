package coordination

import (
	"slices"
	"strconv"
)

// pick returns the agents that may be launched and for which match is true.
func (s *State) pick(match func(*agent) bool) []*agent {
	return s.agents(func(a *agent) bool { return s.able(a) && match(a) })
}

// wave returns the agents to launch. In rounds, these are all agents that owe something, once
// nothing runs. With continuous pacing, they are the agents with news. An agent without news
// is launched only if it may improve its answer alone, if an evaluation has given it tasks,
// or if no other agent runs or can be launched.
func (s *State) wave() []*agent {
	idle := !s.busy() && !s.checking()
	if s.Config.Pacing == pacingRounds && !idle {
		return nil
	}
	ready := s.pick(func(a *agent) bool { return s.wants(a) && !s.waitsForPeer(a) && len(s.offered(a)) > 0 })
	if s.Config.Pacing == pacingRounds {
		return ready
	}
	news := slices.DeleteFunc(slices.Clone(ready), func(a *agent) bool { return !s.hasNews(a) && !s.worksOn(a) })
	if len(news) == 0 && idle {
		return ready
	}
	return news
}

// revoters returns the agents that vote again after a split.
func (s *State) revoters() []*agent {
	return s.pick(func(a *agent) bool { return len(s.offered(a)) > 0 })
}

// launchNext starts the next wave, after the evaluations of its agents' newest answers.
func (s *State) launchNext() []Launch {
	evaluations, wave := s.critiques(s.wave())
	return append(evaluations, s.rejoin(s.launchWave(wave, false))...)
}

// launchWave starts a step of each agent, in configured order, as far as shared limits allow.
// Rounds are waves; with continuous pacing each agent counts its own rounds, and the
// session's round is the highest of them.
func (s *State) launchWave(agents []*agent, revote bool) []Launch {
	if len(agents) == 0 {
		return nil
	}
	before, newest := s.Round, s.Round
	var launches []Launch
	for _, a := range agents {
		offered := s.offered(a, agents...) // before the round is counted
		if len(offered) == 0 {
			continue
		}
		a.Rounds++
		round := a.Rounds
		if s.Config.Pacing == pacingRounds {
			round = before + 1
		}
		newest = max(newest, round)
		if s.hasNews(a) {
			a.Streak = 0
		}
		launches = append(launches, s.start(a, Launch{
			Round: round, Shown: s.shownTo(a), Offered: offered,
			Updates: s.updates(a), Revote: revote,
		}))
	}
	s.Round = newest
	s.noteRound(before, len(launches), revote)
	return launches
}

// noteRound counts a revote and records the start of a round in the timeline.
func (s *State) noteRound(before, launched int, revote bool) {
	switch {
	case revote:
		s.Revotes++
		s.note(Entry{Kind: EntryRevote, Text: "round " + strconv.Itoa(s.Round) + ": the vote was split, everybody votes again"})
	case s.Round > before:
		s.note(Entry{Kind: EntryRound, Text: "round " + strconv.Itoa(s.Round) + ": " + strconv.Itoa(launched) + " launched"})
	}
}

func (s *State) roundOf(a *agent) int {
	if s.Config.Pacing == pacingRounds {
		return s.Round
	}
	return a.Rounds
}

// resumable returns the agents whose steps resume at once: those of rule 21 and those that
// are retried.
func (s *State) resumable() []*agent {
	return s.pick(func(a *agent) bool {
		if a.Rest != nil && a.Rest.Launch.Purpose.ofFinale() {
			return false
		}
		return a.Retried || !s.parked() && (a.Rest != nil || a.Again)
	})
}

// relaunch resumes the steps of agents. If an action is no longer open to a step, a new step
// replaces it in the same round.
func (s *State) relaunch(agents []*agent) []Launch {
	if !s.Affords() {
		return nil
	}
	var launches []Launch
	for _, a := range agents {
		if a.Rest != nil && a.Rest.Launch.Purpose == Evaluation {
			launches = append(launches, s.resume(a))
			continue
		}
		offered := s.offered(a)
		if len(offered) == 0 {
			a.Again, a.Retried, a.Rest, a.Left = false, false, nil, s.filesOf(a) // it waits for the next wave
			continue
		}
		if a.Rest != nil && a.Rest.Launch.within(offered) {
			launches = append(launches, s.resume(a))
			continue
		}
		if s.hasNews(a) {
			a.Streak = 0
		}
		launches = append(launches, s.start(a, Launch{
			Round: max(1, s.roundOf(a)), Shown: s.shownTo(a), Offered: offered,
			Updates: s.updates(a), Revote: a.Retried && s.fresh(a),
		}))
	}
	return launches
}

// shown returns the answers of rule 4, in its order.
func (s *State) shown() []Shown {
	var all []Shown
	for _, a := range s.byNumber() {
		if a.answered() {
			all = append(all, Shown{Agent: a.ID, Number: a.Number, Label: a.latestLabel(), Step: a.latest(), Seq: a.Newest})
		}
	}
	return all
}

// may reports whether an action was open to the step.
func (l *Launch) may(action Action) bool { return slices.Contains(l.Offered, action) }

// within reports whether offered has every action that was open to the step.
func (l *Launch) within(offered []Action) bool {
	return !slices.ContainsFunc(l.Offered, func(action Action) bool { return !slices.Contains(offered, action) })
}

// seen returns the answers that the step was shown at its launch, in byte order of the IDs.
func (l *Launch) seen() []Seen {
	seen := make([]Seen, 0, len(l.Shown))
	for _, shown := range l.Shown {
		at, _ := slices.BinarySearchFunc(seen, shown.Agent, byAgent)
		seen = slices.Insert(seen, at, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// heard returns the number of the last human message in the launch, or 0.
func (l *Launch) heard() int {
	if len(l.Messages) == 0 {
		return 0
	}
	return l.Messages[len(l.Messages)-1].Number
}

// start launches a new step of the agent.
func (s *State) start(a *agent, l Launch) Launch {
	l.Agent, l.Number, l.Answers, l.Given = a.ID, a.Number, len(a.Answers), a.answerCount()
	l.Messages = s.messagesFor(a)
	l.FilesFrom = s.filesOf(a)
	l.Checks = s.checkTable(l)
	if n := len(s.Earlier); n > 0 {
		l.Previous = &s.Earlier[n-1]
	}
	if l.Purpose == Coordinate {
		l.Critique = shallow(a.critiqueOf())
	}
	return s.mint(a, l)
}

// resume launches the agent's suspended or failed step again. The shown answers do not change,
// since the step's journal begins with them; the allowance is computed anew.
func (s *State) resume(a *agent) Launch {
	l := a.Rest.Launch
	l.Allowance = Allowance{}
	if a.Rest.Token != "" {
		l.ResumeFrom, l.Uncounted = a.Rest.Token, a.Rest.Uncounted
	}
	return s.mint(a, l)
}

// mint gives a launch an ID and makes it the agent's running one.
func (s *State) mint(a *agent, l Launch) Launch {
	s.Launches++
	l.ID = LaunchID("l" + strconv.Itoa(s.Launches))
	if l.Purpose != Evaluation {
		l.After = a.Step
	}
	l.LongestCall = s.LongestCall
	a.Again, a.Retried, a.Rest, a.Left = false, false, nil, ""
	a.Run = &runningStep{Launch: l.clone()}
	return l.clone()
}

// messagesFor returns the human messages to the agent.
func (s *State) messagesFor(a *agent) []Message {
	var mine []Message
	for _, m := range s.Messages {
		if m.Agent == "" || m.Agent == a.ID {
			mine = append(mine, m)
		}
	}
	return mine
}

// updates returns the limits of rule 23 for a step of the agent.
func (s *State) updates(a *agent) Updates {
	c := s.Config
	switch {
	case c.Updates == noUpdates || !a.answered() || s.secluded():
		return Updates{}
	case c.DeferUpdates && !c.BeforeChecklist:
		return Updates{}
	}
	return Updates{Mode: c.Updates, Most: c.UpdatesPerStep, UntilChecklist: c.DeferUpdates}
}

func (l Launch) clone() Launch {
	l.Shown, l.Messages, l.Offered = slices.Clone(l.Shown), slices.Clone(l.Messages), slices.Clone(l.Offered)
	l.Brief, l.Final, l.Previous = shallow(l.Brief), shallow(l.Final), shallow(l.Previous)
	if l.Critique = shallow(l.Critique); l.Critique != nil {
		l.Critique.Scores = slices.Clone(l.Critique.Scores)
	}
	l.Checks = l.Checks.clone()
	if l.Brief != nil {
		l.Brief.Reasons, l.Brief.Stops = slices.Clone(l.Brief.Reasons), slices.Clone(l.Brief.Stops)
	}
	return l
}

// left returns the part of the budget that is neither spent nor granted to running steps. A
// zero field is no limit; a negative one is overspent.
func (s *State) left() Allowance {
	budget, spent := s.Config.Budget, s.Cost()
	left := Allowance{}
	if budget.Tokens > 0 {
		left.Tokens = budget.Tokens - spent.InputTokens - spent.OutputTokens
	}
	if budget.USD > 0 {
		left.USD = budget.USD - spent.AtLeastUSD()
	}
	for _, a := range s.Agents {
		if a.Run != nil {
			left.Tokens -= a.Run.Launch.Allowance.Tokens
			left.USD -= a.Run.Launch.Allowance.USD
		}
	}
	return left
}

// Affords reports whether the budget, if there is one, leaves an allowance for a new
// step.
func (s *State) Affords() bool {
	left, budget := s.left(), s.Config.Budget
	return (budget.Tokens <= 0 || left.Tokens > 0) && (budget.USD <= 0 || left.USD > 0)
}

// share divides the rest of the budget equally among launches, and returns them as commands.
// The steps were started without an allowance, so nothing is granted twice.
func (s *State) share(launches []Launch) []Command {
	var commands []Command
	each := s.allowance(max(1, len(launches)))
	for _, l := range launches {
		l.Allowance = each
		s.agent(l.Agent).Run.Launch.Allowance = each
		commands = append(commands, l)
	}
	return commands
}

// allowance returns the allowance of each of n steps.
func (s *State) allowance(n int) Allowance {
	left := s.left()
	if s.Config.Budget.Tokens > 0 {
		left.Tokens = max(1, left.Tokens/int64(n))
	}
	if s.Config.Budget.USD > 0 {
		left.USD = max(0, left.USD/float64(n))
	}
	return left
}

// spent reports whether the budget is used up. Calls of unknown cost count as zero: in a
// session with a cost limit, these are calls that a server did not count.
func (s *State) spent() bool {
	budget, cost := s.Config.Budget, s.Cost()
	return budget.Tokens > 0 && cost.InputTokens+cost.OutputTokens >= budget.Tokens ||
		budget.USD > 0 && cost.AtLeastUSD() >= budget.USD
}
