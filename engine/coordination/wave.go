package coordination

import (
	"cmp"
	"slices"
	"strconv"
)

// wave is who is launched together.
type wave struct {
	agents []*Agent // in configured order
	revote bool
}

// unheard are the agents that have yet to act on what there is: without a
// fresh vote, and with a step left. In particular an agent with a fresh vote
// has nothing new to see and is never started again by this.
func (s *State) unheard() wave {
	return wave{agents: s.pick(func(a *Agent) bool { return !s.fresh(a) })}
}

// everybody are the agents that vote again after a split.
func (s *State) everybody() wave {
	return wave{agents: s.pick(func(*Agent) bool { return true }), revote: true}
}

// pick selects from the agents that may be launched at all.
func (s *State) pick(wanted func(*Agent) bool) []*Agent {
	var picked []*Agent
	for i := range s.Agents {
		a := &s.Agents[i]
		if a.active() && a.Run == nil && a.Steps < s.Config.MaxStepsPerAgent && wanted(a) {
			picked = append(picked, a)
		}
	}
	return picked
}

// launch starts the wave's steps; an empty wave is none.
func (s *State) launch(w wave) []Command {
	if len(w.agents) == 0 {
		return nil
	}
	s.Round++
	if w.revote {
		s.Revotes++
		s.note(Entry{Kind: EntryRevote, Text: "round " + strconv.Itoa(s.Round) + ": the vote was split, everybody votes again"})
	} else {
		s.note(Entry{Kind: EntryRound, Text: "round " + strconv.Itoa(s.Round) + ": " + strconv.Itoa(len(w.agents)) + " launched"})
	}
	shown := s.shown()
	offered := []Action{NewAnswer}
	if len(shown) > 0 {
		offered = append(offered, Vote)
	}
	commands := make([]Command, 0, len(w.agents))
	for _, a := range w.agents {
		s.Launches++
		a.Run = &Run{Launch: LaunchID("l" + strconv.Itoa(s.Launches)), MayVote: len(shown) > 0}
		commands = append(commands, Launch{
			ID: a.Run.Launch, Agent: a.ID, Number: a.Number, Round: s.Round, After: a.Step,
			Shown: slices.Clone(shown), Offered: slices.Clone(offered), Revote: w.revote,
		})
	}
	return commands
}

// shown is what a step launched now sees: the latest accepted answer of every
// agent, failed ones included, in the order of the anonymous numbers, so that
// the order says nothing about the configuration.
func (s *State) shown() []Shown {
	var all []Shown
	for i := range s.Agents {
		if a := &s.Agents[i]; a.answered() {
			all = append(all, Shown{Agent: a.ID, Number: a.Number, Label: a.latestLabel(), Step: a.latest()})
		}
	}
	slices.SortFunc(all, func(x, y Shown) int { return cmp.Compare(x.Number, y.Number) })
	return all
}
