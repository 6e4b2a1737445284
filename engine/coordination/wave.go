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
