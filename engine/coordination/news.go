package coordination

import (
	"cmp"
	"slices"
	"strings"
)

// stale reports whether there is something that a vote or stop of a has not
// seen: an answer of any agent, active or failed, or a human message to a.
// Other votes and stops never make one stale.
func (s *State) stale(a *Agent, seen []Seen, heard int) bool {
	return s.unseen(seen, nil) || s.unheard(a, heard)
}

// unseen reports whether an agent has an answer newer than seen; but for the
// answers of except, if that is given.
func (s *State) unseen(seen []Seen, except *Agent) bool {
	for i := range s.Agents {
		a := &s.Agents[i]
		if a.answered() && seenStep(seen, a.ID) < a.latest() && (except == nil || except.ID != a.ID) {
			return true
		}
	}
	return false
}

// unheard reports whether people have said something to a since.
func (s *State) unheard(a *Agent, heard int) bool { return s.spoken(a, heard, s.counted()) }

// spoken reports whether there are messages to a after one number, up to another.
func (s *State) spoken(a *Agent, after, upTo int) bool {
	return slices.ContainsFunc(s.Messages, func(m Message) bool {
		return m.Number > after && m.Number <= upTo && (m.Agent == "" || m.Agent == a.ID)
	})
}

// counted is the last message that a vote must have heard: what is said after
// the decision does not undo it.
func (s *State) counted() int {
	if s.Settled != nil {
		return *s.Settled
	}
	return len(s.Messages)
}

// fresh reports whether a has a vote or a stop that counts. A failed agent has
// none: its failure withdrew it.
func (s *State) fresh(a *Agent) bool {
	switch {
	case a.Ballot != nil:
		return !s.stale(a, a.Ballot.Seen, a.Ballot.Heard)
	case a.Halt != nil:
		return !s.stale(a, a.Halt.Seen, a.Halt.Heard)
	}
	return false
}

// peersNew reports whether a's peers have answers that a has not been shown.
func (s *State) peersNew(a *Agent) bool { return s.unseen(a.Known, a) }

// news reports whether a has something new to look at: its first step of an
// attempt, answers of its peers, or what people said. Its own answer is none.
func (s *State) news(a *Agent) bool {
	return !a.Ran || s.peersNew(a) || s.unheard(a, a.Heard)
}

// outdates reports whether there are answers that a running step was not shown
// at its launch.
func (s *State) outdates(run *Launch) bool {
	return s.unseen(run.seen(), s.agent(run.Agent))
}

// freshAgents are those whose votes or stops count, in configured order. None
// of them can have seen an answer that is yet to come.
func (s *State) freshAgents() []*Agent {
	var fresh []*Agent
	for i := range s.Agents {
		if a := &s.Agents[i]; s.fresh(a) {
			fresh = append(fresh, a)
		}
	}
	return fresh
}

// outdated says for a person whose votes or stops an answer has made stale.
func outdated(fresh []*Agent) string {
	if len(fresh) == 0 {
		return ""
	}
	what := "vote"
	if fresh[0].Halt != nil {
		what = "stop"
	}
	ids := make([]string, len(fresh))
	for i, a := range fresh {
		ids[i] = a.ID
	}
	last := len(ids) - 1
	if last == 0 {
		return "; the " + what + " of " + ids[0] + " is stale now"
	}
	return "; the " + what + "s of " + strings.Join(ids[:last], ", ") + " and " + ids[last] + " are stale now"
}

// witnessed is seen in the form in which it is kept: one entry per agent with
// an answer, in byte order of the IDs. Nobody can have seen more than was
// accepted: a higher step would keep a vote fresh against answers to come.
func (s *State) witnessed(seen []Seen) []Seen {
	var kept []Seen
	for _, n := range seen {
		a := s.agent(n.Agent)
		if a == nil || n.Step <= 0 || !a.answered() {
			continue
		}
		n.Step = min(n.Step, a.latest())
		at, found := slices.BinarySearchFunc(kept, n.Agent, byAgent)
		if found {
			kept[at].Step = max(kept[at].Step, n.Step)
			continue
		}
		kept = slices.Insert(kept, at, n)
	}
	return kept
}

// seenStep looks agent up in seen, which is sorted; absent counts as 0.
func seenStep(seen []Seen, agent string) int {
	at, found := slices.BinarySearchFunc(seen, agent, byAgent)
	if !found {
		return 0
	}
	return seen[at].Step
}

func byAgent(n Seen, agent string) int { return cmp.Compare(n.Agent, agent) }

// ring tells the running steps what is new, if there is something new that one
// of them can use. Every ring costs an event of the history.
func (s *State) ring(directive Directive) []Command {
	if !s.running() {
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
