package coordination

import "slices"

// ring tells the running steps what is new, if there is something new that one
// of them can use. Every ring costs an event of the history.
func (s *State) ring(directive Directive) []Command {
	if s.Protocol < 2 || !s.running() {
		return nil
	}
	bell := Ring{
		Epoch: s.Bell.Epoch + 1, Earlier: len(s.Earlier),
		Answers: s.shown(), Messages: slices.Clone(s.Messages), Directive: directive,
	}
	if directive == s.Bell.Directive && !s.useful(bell) {
		return nil
	}
	s.Bell = bell
	return []Command{bell.clone()}
}

// useful reports whether a running step could do something with what bell says
// and the last one did not.
func (s *State) useful(bell Ring) bool {
	return slices.ContainsFunc(s.Agents, func(a Agent) bool {
		return a.Run != nil && (s.tells(bell, &a.Run.Launch) || s.speaks(bell, &a.Run.Launch))
	})
}

// tells reports answers that the step takes in and has neither been shown nor
// told of.
func (s *State) tells(bell Ring, run *Launch) bool {
	if run.Updates.Mode == NoUpdates {
		return false
	}
	seen := run.seen()
	return slices.ContainsFunc(bell.Answers, func(n Shown) bool {
		return n.Agent != run.Agent && n.Step > seenStep(seen, n.Agent) && n.Step > s.Bell.latest(n.Agent)
	})
}

// speaks reports human messages to the step that it was not told at its launch.
func (s *State) speaks(bell Ring, run *Launch) bool {
	return slices.ContainsFunc(bell.Messages, func(m Message) bool {
		return (m.Agent == "" || m.Agent == run.Agent) && m.Number > run.heard() && m.Number > len(s.Bell.Messages)
	})
}

// latest is the answer of agent that the bell tells of, 0 for none.
func (b Ring) latest(agent string) int {
	for _, n := range b.Answers {
		if n.Agent == agent {
			return n.Step
		}
	}
	return 0
}

func (b Ring) clone() Ring {
	b.Answers, b.Messages = slices.Clone(b.Answers), slices.Clone(b.Messages)
	return b
}

// directive is what the running steps are asked for now.
func (s *State) directive() Directive {
	switch {
	case s.Done():
		return Ending
	case s.Paused || s.suspending():
		return Pausing
	case s.Short || s.spent():
		return WrapUp
	}
	return CarryOn
}

// suspending reports whether steps that a pause ended have yet to say so: until
// they have, they must be able to learn why.
func (s *State) suspending() bool {
	return slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Run != nil && a.Run.Cancelled })
}
