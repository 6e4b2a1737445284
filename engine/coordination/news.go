package coordination

import (
	"cmp"
	"slices"
	"strings"
)

// stale reports whether a vote or stop of the agent missed a newer answer of any agent, active or
// failed, or a human message to it.
func (s *State) stale(a *agent, seen []Seen, heard int) bool {
	return isNewer(a, seen) || s.hasUnseenPeer(a, seen) || s.hasUnread(a, heard)
}

// isNewer reports whether the agent has an answer newer than seen.
func isNewer(a *agent, seen []Seen) bool { return a.answered() && seenStep(seen, a.ID) < a.latest() }

// hasUnseenPeer reports whether a peer has an answer that is newer than seen and that the agent may
// be shown.
func (s *State) hasUnseenPeer(a *agent, seen []Seen) bool {
	return !s.secluded() && slices.ContainsFunc(s.Agents, func(peer *agent) bool { return peer != a && isNewer(peer, seen) })
}

// hasUnread reports whether there are messages to the agent after number heard that make a vote
// stale. Messages after the decision do not.
func (s *State) hasUnread(a *agent, heard int) bool {
	if s.Settled != nil {
		return s.hasMessages(a, heard, *s.Settled)
	}
	return s.hasMessages(a, heard, len(s.Messages))
}

// hasMessages reports whether there are messages to the agent with numbers in (after, upTo].
func (s *State) hasMessages(a *agent, after, upTo int) bool {
	return slices.ContainsFunc(s.messagesFor(a), func(m Message) bool { return m.Number > after && m.Number <= upTo })
}

// fresh reports whether the agent has a vote or stop that is not stale.
func (s *State) fresh(a *agent) bool {
	switch {
	case a.Ballot != nil:
		return !s.stale(a, a.Ballot.Seen, a.Ballot.Heard)
	case a.Halt != nil:
		return !s.stale(a, a.Halt.Seen, a.Halt.Heard)
	}
	return false
}

// hasPeerNews reports whether peers have answers that the agent has not been shown.
func (s *State) hasPeerNews(a *agent) bool { return s.hasUnseenPeer(a, a.Known) }

// hasNews reports whether the agent has news: its first step of an attempt, an unseen answer of a
// peer, or an unread message.
func (s *State) hasNews(a *agent) bool {
	return !a.Ran || s.hasPeerNews(a) || s.hasUnread(a, a.Heard)
}

// isOutdated reports whether a peer has answered since the launch of a running step.
func (s *State) isOutdated(run *Launch) bool {
	return s.hasUnseenPeer(s.agent(run.Agent), run.seen())
}

// outdated lists, for people, the votes or stops that an answer has made stale.
func outdated(fresh []*agent) string {
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

// boundSeen limits seen as rule 17 says, with one entry for each agent, in byte order of the
// IDs. An entry beyond the latest answer would keep a vote fresh when later answers come.
func (s *State) boundSeen(seen []Seen) []Seen {
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

// seenStep returns the step of agent in seen, which is sorted, or 0.
func seenStep(seen []Seen, agent string) int {
	at, found := slices.BinarySearchFunc(seen, agent, byAgent)
	if !found {
		return 0
	}
	return seen[at].Step
}

func byAgent(n Seen, agent string) int { return cmp.Compare(n.Agent, agent) }

// ring returns a ring if there is a new directive, or news for a running step. It returns
// none otherwise, because each ring adds an event to the history.
func (s *State) ring(directive Directive) []Command {
	if !s.running() {
		return nil
	}
	bell := Ring{
		Epoch: s.Bell.Epoch + 1, Earlier: len(s.Earlier),
		Answers: s.shown(), Messages: slices.Clone(s.Messages), Directive: directive,
	}
	if directive == s.Bell.Directive && !s.bringsNews(bell) {
		return nil
	}
	s.Bell = bell
	return []Command{bell.clone()}
}

// bringsNews reports whether bell has news for a running step that the last ring did not
// have.
func (s *State) bringsNews(bell Ring) bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool {
		return a.Run != nil && (s.bringsAnswer(bell, &a.Run.Launch) || s.bringsMessage(bell, &a.Run.Launch))
	})
}

// bringsAnswer reports whether bell has an answer that the step accepts and has not seen.
func (s *State) bringsAnswer(bell Ring, run *Launch) bool {
	if run.Updates.Mode == noUpdates {
		return false
	}
	seen := run.seen()
	return slices.ContainsFunc(bell.Answers, func(n Shown) bool {
		return n.Agent != run.Agent && n.Step > seenStep(seen, n.Agent) && n.Step > s.Bell.latest(n.Agent)
	})
}

// bringsMessage reports whether bell has a message to the step that came after its launch.
func (s *State) bringsMessage(bell Ring, run *Launch) bool {
	return slices.ContainsFunc(bell.Messages, func(m Message) bool {
		return (m.Agent == "" || m.Agent == run.Agent) && m.Number > run.heard() && m.Number > len(s.Bell.Messages)
	})
}

// latest returns the step of agent's answer in the ring, or 0.
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

// directive returns the present directive to running steps.
func (s *State) directive() Directive {
	switch {
	case s.Done() || s.cuts():
		return Ending
	case s.Paused || s.suspending():
		return Pausing
	case s.Short || s.spent():
		return WrapUp
	}
	return carryOn
}

// suspending reports whether a cancelled step has yet to report. Until then it must be able
// to read the reason.
func (s *State) suspending() bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Run != nil && a.Run.Cancelled })
}
