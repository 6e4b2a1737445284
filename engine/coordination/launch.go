package coordination

import (
	"cmp"
	"slices"
	"strconv"
)

// pick selects from the agents that may be launched at all, in configured order.
func (s *State) pick(wanted func(*Agent) bool) []*Agent {
	var picked []*Agent
	for i := range s.Agents {
		if a := &s.Agents[i]; s.able(a) && wanted(a) {
			picked = append(picked, a)
		}
	}
	return picked
}

// next agents: who is launched now, given that nothing forbids launching.
//
// In rounds it is everybody with something left to do, once nothing runs. With
// continuous pacing it is whoever has something new to look at; an agent whose
// own answer is the only news goes on when nobody else can.
func (s *State) wave() []*Agent {
	idle := !s.running()
	if s.Config.Pacing == Rounds && !idle {
		return nil
	}
	ready := s.pick(func(a *Agent) bool { return s.wants(a) && !s.waits(a) && len(s.offered(a)) > 0 })
	if s.Config.Pacing == Rounds {
		return ready
	}
	news := slices.DeleteFunc(slices.Clone(ready), func(a *Agent) bool { return !s.news(a) })
	if len(news) == 0 && idle {
		return ready
	}
	return news
}

// everybody are the agents that vote again after a split.
func (s *State) everybody() []*Agent {
	return s.pick(func(a *Agent) bool { return len(s.offered(a)) > 0 })
}

// launchWave starts a step of each agent, as far as limits that they share
// allow: who comes first in configured order has the first claim. Rounds are
// waves; with continuous pacing they are counted by each agent, and the
// session's is the highest.
func (s *State) launchWave(agents []*Agent, revote bool) []Command {
	if len(agents) == 0 {
		return nil
	}
	shown, before := s.shown(), s.Round
	var commands []Command
	for _, a := range agents {
		offered := s.offered(a, agents...)
		if len(offered) == 0 {
			continue
		}
		a.Rounds++
		if s.Round = max(s.Round, a.Rounds); s.Config.Pacing == Rounds {
			s.Round = before + 1
		}
		if s.news(a) {
			a.Streak = 0
		}
		commands = append(commands, s.start(a, Launch{
			Round: s.roundOf(a), Shown: slices.Clone(shown), Offered: offered,
			Updates: s.updates(a), Revote: revote,
		}))
	}
	s.noteRound(before, len(commands), revote)
	return commands
}

// noteRound counts a revote, and notes a round that has begun.
func (s *State) noteRound(before, launched int, revote bool) {
	switch {
	case revote:
		s.Revotes++
		s.note(Entry{Kind: EntryRevote, Text: "round " + strconv.Itoa(s.Round) + ": the vote was split, everybody votes again"})
	case s.Round > before:
		s.note(Entry{Kind: EntryRound, Text: "round " + strconv.Itoa(s.Round) + ": " + strconv.Itoa(launched) + " launched"})
	}
}

func (s *State) roundOf(a *Agent) int {
	if s.Config.Pacing == Rounds {
		return s.Round
	}
	return a.Rounds
}

// again are the agents that go on at once, whatever the others do: with a step
// that was suspended, or that failed and is retried, or that ended itself.
func (s *State) again() []*Agent {
	return s.pick(func(a *Agent) bool {
		if a.Rest != nil && a.Rest.Launch.Purpose != Coordinate {
			return false // the finale's own
		}
		return a.Retried || !s.parked() && (a.Rest != nil || a.Again)
	})
}

// relaunch starts them. A step is gone on with where it may still do what it
// might; otherwise a new one takes its place, in the same round.
func (s *State) relaunch(agents []*Agent) []Command {
	if !s.affords() {
		return nil
	}
	var commands []Command
	for _, a := range agents {
		offered := s.offered(a)
		if len(offered) == 0 {
			a.Again, a.Retried, a.Rest = false, false, nil // it waits like others do
			continue
		}
		if a.Rest != nil && a.Rest.Launch.within(offered) {
			commands = append(commands, s.resume(a))
			continue
		}
		if s.news(a) {
			a.Streak = 0
		}
		commands = append(commands, s.start(a, Launch{
			Round: max(1, s.roundOf(a)), Shown: s.shown(), Offered: offered,
			Updates: s.updates(a),
		}))
	}
	return commands
}

// inOrder sorts launches as their agents are configured.
func (s *State) inOrder(launches []Command) []Command {
	place := func(c Command) int {
		l, _ := c.(Launch)
		return s.index(l.Agent)
	}
	slices.SortStableFunc(launches, func(x, y Command) int { return cmp.Compare(place(x), place(y)) })
	return launches
}

// shown is what a step launched now sees: the latest accepted answer of every
// agent, failed ones included, in the order of the anonymous numbers, so that
// the order says nothing about the configuration.
func (s *State) shown() []Shown {
	var all []Shown
	for i := range s.Agents {
		if a := &s.Agents[i]; a.answered() {
			all = append(all, a.asShown())
		}
	}
	slices.SortFunc(all, func(x, y Shown) int { return cmp.Compare(x.Number, y.Number) })
	return all
}

// asShown is the agent's latest answer as it is put before others.
func (a *Agent) asShown() Shown {
	return Shown{Agent: a.ID, Number: a.Number, Label: a.latestLabel(), Step: a.latest()}
}

// may reports whether an action was open to the step.
func (l *Launch) may(action Action) bool { return slices.Contains(l.Offered, action) }

// within reports whether offered has all that was open to the step.
func (l *Launch) within(offered []Action) bool {
	return !slices.ContainsFunc(l.Offered, func(action Action) bool { return !slices.Contains(offered, action) })
}

// seen is what the step is shown at its launch, in byte order of the IDs.
func (l *Launch) seen() []Seen {
	seen := make([]Seen, 0, len(l.Shown))
	for _, shown := range l.Shown {
		at, _ := slices.BinarySearchFunc(seen, shown.Agent, byAgent)
		seen = slices.Insert(seen, at, Seen{Agent: shown.Agent, Step: shown.Step})
	}
	return seen
}

// heard is the last human message that the step is told at its launch.
func (l *Launch) heard() int {
	if len(l.Messages) == 0 {
		return 0
	}
	return l.Messages[len(l.Messages)-1].Number
}

// start mints the launch of a step of a.
func (s *State) start(a *Agent, l Launch) Launch {
	s.Launches++
	l.ID, l.Agent, l.Number, l.After = LaunchID("l"+strconv.Itoa(s.Launches)), a.ID, a.Number, a.Step
	l.Answers, l.Given = len(a.Answers), a.given()
	l.Messages = s.messagesFor(a)
	if len(s.Earlier) > 0 {
		previous := s.Earlier[len(s.Earlier)-1]
		l.Previous = &previous
	}
	a.Again, a.Retried, a.Rest = false, false, nil
	a.Run = &Run{Launch: l}
	return l.clone()
}

// resume launches the step that a has to go on with, under a new ID. What it
// was shown stays what it was: the journal it goes on from begins with that.
// What it may spend is settled anew: what it has spent is spent.
func (s *State) resume(a *Agent) Launch {
	l, token := a.Rest.Launch.clone(), a.Rest.Token
	s.Launches++
	l.ID, l.After, l.Allowance = LaunchID("l"+strconv.Itoa(s.Launches)), a.Step, Allowance{}
	if token != "" {
		l.ResumeFrom = token
	}
	a.Again, a.Retried, a.Rest = false, false, nil
	a.Run = &Run{Launch: l}
	return l.clone()
}

// messagesFor are the human messages that concern a.
func (s *State) messagesFor(a *Agent) []Message {
	var mine []Message
	for _, m := range s.Messages {
		if m.Agent == "" || m.Agent == a.ID {
			mine = append(mine, m)
		}
	}
	return mine
}

// updates is what may reach a step of a while it works. An agent's first answer
// is its own: until it has one, peers' answers do not reach it.
func (s *State) updates(a *Agent) Updates {
	c := s.Config
	switch {
	case c.Updates == NoUpdates || !a.answered():
		return Updates{}
	case c.DeferUpdates && !c.BeforeChecklist:
		return Updates{}
	}
	return Updates{Mode: c.Updates, Most: c.UpdatesPerStep, UntilChecklist: c.DeferUpdates}
}

func (l Launch) clone() Launch {
	l.Shown = slices.Clone(l.Shown)
	l.Messages = slices.Clone(l.Messages)
	l.Offered = slices.Clone(l.Offered)
	if l.Brief != nil {
		v := *l.Brief
		v.Reasons, v.Stops = slices.Clone(v.Reasons), slices.Clone(v.Stops)
		l.Brief = &v
	}
	if l.Final != nil {
		final := *l.Final
		l.Final = &final
	}
	if l.Previous != nil {
		previous := *l.Previous
		l.Previous = &previous
	}
	return l
}

// left is what of the budget is neither spent nor promised to running steps;
// zero fields are no limit, negative ones nothing left.
func (s *State) left() Allowance {
	budget, spent := s.Config.Budget, s.Cost()
	left := Allowance{}
	if budget.Tokens > 0 {
		left.Tokens = budget.Tokens - spent.InputTokens - spent.OutputTokens
	}
	if budget.USD > 0 {
		left.USD = budget.USD - spent.AtLeastUSD()
	}
	for i := range s.Agents {
		if run := s.Agents[i].Run; run != nil {
			left.Tokens -= run.Launch.Allowance.Tokens
			left.USD -= run.Launch.Allowance.USD
		}
	}
	return left
}

// affords reports whether there is anything left to give to a new step.
func (s *State) affords() bool {
	left, budget := s.left(), s.Config.Budget
	return (budget.Tokens <= 0 || left.Tokens > 0) && (budget.USD <= 0 || left.USD > 0)
}

// share gives every one of the steps launched together an equal share of what is
// left. They were started with nothing, so that none of it is promised yet.
func (s *State) share(launches []Command) []Command {
	if len(launches) == 0 {
		return nil
	}
	purse := s.purse(len(launches))
	for i := range launches {
		if l, ok := launches[i].(Launch); ok {
			l.Allowance = purse
			s.agent(l.Agent).Run.Launch.Allowance = purse
			launches[i] = l
		}
	}
	return launches
}

// purse is what each of n steps may spend.
func (s *State) purse(n int) Allowance {
	left := s.left()
	if s.Config.Budget.Tokens > 0 {
		left.Tokens = max(1, left.Tokens/int64(n))
	}
	if s.Config.Budget.USD > 0 {
		left.USD = max(0, left.USD/float64(n))
	}
	return left
}

// spent reports whether the budget is used up. Calls of unknown cost count as nothing:
// in a session with a cost limit they are those that a server did not count.
func (s *State) spent() bool {
	budget, cost := s.Config.Budget, s.Cost()
	return budget.Tokens > 0 && cost.InputTokens+cost.OutputTokens >= budget.Tokens ||
		budget.USD > 0 && cost.AtLeastUSD() >= budget.USD
}
