package coordination

import "slices"

// owes reports whether the agent owes a fresh vote, a fresh stop or, without voting, an answer.
func (s *State) owes(a *agent) bool {
	if s.Config.Mode == voting && !s.Config.votes() {
		return !a.answered()
	}
	return !s.fresh(a)
}

// wants reports whether the agent should be launched: it owes an action or, without voting, has an
// unread message. A secluded agent at its limit of answers waits.
func (s *State) wants(a *agent) bool {
	if s.secluded() && a.answered() && s.full(a) {
		return false
	}
	return s.owes(a) || s.Config.Mode == voting && !s.Config.votes() && s.hasUnread(a, a.Heard) && !s.full(a)
}

// full reports whether the limits allow the agent no further answer.
func (s *State) full(a *agent) bool {
	c := s.Config
	return c.AnswersGlobal > 0 && s.total() >= c.AnswersGlobal ||
		c.AnswersPerAgent > 0 && c.Mode == voting && a.answerCount() >= c.AnswersPerAgent
}

// able reports whether the agent is active and idle, and its limits or a message allow it a step.
func (s *State) able(a *agent) bool {
	return a.active() && a.Run == nil && (a.goesOn() || !s.atLimit(a) || s.recalled(a))
}

// atLimit reports whether max_steps_per_agent or max_rounds allows the agent no further step.
func (s *State) atLimit(a *agent) bool {
	return a.Steps >= s.Config.MaxStepsPerAgent || s.outOfRounds(a)
}

// recalled reports whether an unread message lets the agent vote or stop once more at its limit.
func (s *State) recalled(a *agent) bool {
	return (s.Config.Mode == Decomposition || s.Config.votes()) && s.owes(a) && s.hasUnread(a, a.Heard)
}

// goesOn reports whether the agent has a step to resume, or to begin again in the same round.
func (a *agent) goesOn() bool { return a.Rest != nil || a.Again || a.Retried }

// outOfRounds reports whether max_rounds allows the agent no further round. Rounds are counted
// anew when an absent agent joins.
func (s *State) outOfRounds(a *agent) bool {
	return s.Config.MaxRounds > 0 && !a.Absent && s.roundsOf(a) >= s.Config.MaxRounds
}

// inLastRound reports whether the agent's next step belongs to the last round.
func (s *State) inLastRound(a *agent) bool {
	rounds := s.roundsOf(a)
	if !a.goesOn() {
		rounds++
	}
	return s.Config.MaxRounds > 0 && rounds >= s.Config.MaxRounds
}

// roundsOf returns the number of rounds of this attempt since the newest join: the session's in
// rounds, or the agent's own with continuous pacing.
func (s *State) roundsOf(a *agent) int {
	if s.Config.Pacing == pacingRounds {
		return s.Round - s.Begun
	}
	return a.Rounds - a.Begun
}

// offered returns the actions open to a step of the agent that is launched together with those of
// beside. Without an open action the agent waits for answers of others.
func (s *State) offered(a *agent, beside ...*agent) []Action {
	var offered []Action
	if s.mayAnswer(a, beside) {
		offered = append(offered, NewAnswer)
		if a.tasked() {
			return offered
		}
	}
	switch {
	case s.Config.Mode == Decomposition:
		offered = append(offered, Stop)
	case s.Config.votes() && !s.deferred() && len(s.shownTo(a)) > 0:
		offered = append(offered, Vote)
	}
	return offered
}

func (s *State) mayAnswer(a *agent, beside []*agent) bool {
	c := s.Config
	switch {
	case s.full(a), c.AnswersGlobal > 0 && s.total()+s.reserved() >= c.AnswersGlobal:
		return false
	case a.answered() && s.deferred():
		return false
	case a.Steps >= c.MaxStepsPerAgent, !a.goesOn() && s.outOfRounds(a): // recalled by a message
		return false
	case s.inLastRound(a) && a.answered() && (c.Mode == Decomposition || c.votes()):
		return false
	}
	return !s.overLeadCap(a, func(peer *agent) bool { return s.mayCatchUp(peer) || slices.Contains(beside, peer) })
}

// total returns the number of answers of this attempt.
func (s *State) total() int {
	n := 0
	for _, a := range s.Agents {
		n += a.answerCount()
	}
	return n
}

// reserved counts the running steps that may answer. Their answers must not be refused
// because of a limit.
func (s *State) reserved() int {
	return len(s.agents(func(a *agent) bool {
		return a.Run != nil && a.Run.Launch.Purpose == Coordinate && a.Run.Launch.may(NewAnswer)
	}))
}

// deferred reports whether voting is deferred until an agent has given its first
// answer.
func (s *State) deferred() bool {
	c := s.Config
	if !c.DeferVoting && !s.mayAgree() || c.AnswersGlobal > 0 && s.total() >= c.AnswersGlobal {
		return false
	}
	return slices.ContainsFunc(s.Agents, func(a *agent) bool {
		return a.isFirstOut() || a.active() && !a.answered() && a.Run == nil && !s.atLimit(a)
	})
}

// overLeadCap reports whether one more answer of the agent would exceed the lead cap over a peer
// for which counts is true. A first answer never does.
func (s *State) overLeadCap(a *agent, counts func(*agent) bool) bool {
	lead := s.Config.LeadCap
	return lead != nil && a.answered() && slices.ContainsFunc(s.Agents, func(peer *agent) bool {
		return peer != a && counts(peer) && a.answerCount()+1-peer.answerCount() > *lead
	})
}

// mayCatchUp reports whether the agent runs or can still be launched.
func (s *State) mayCatchUp(a *agent) bool {
	return a.works() || s.able(a) && (a.goesOn() || s.wants(a))
}

// waitsForPeer reports whether the agent waits for a slower peer that is running, because the
// peer's answer would make its vote stale.
func (s *State) waitsForPeer(a *agent) bool {
	return s.overLeadCap(a, (*agent).works)
}

// capped reports whether the session stops the agent. In decomposition, it stops agents that have
// reached a limit of answers and have no unread message.
func (s *State) capped(a *agent) bool {
	c := s.Config
	if c.Mode != Decomposition || !s.able(a) || !s.owes(a) || a.Rest != nil || s.hasUnread(a, a.Heard) {
		return false
	}
	if c.AnswersGlobal > 0 && s.total() >= c.AnswersGlobal {
		return true
	}
	return c.AnswersPerAgent > 0 && a.Streak >= c.AnswersPerAgent && !s.hasPeerNews(a)
}

// stopCapped stops the capped agents (seed 001: hit limits auto-stop the agent instead
// of vote-only mode).
func (s *State) stopCapped() {
	if s.Config.Pacing == pacingRounds && s.busy() {
		return // the running wave may bring them news
	}
	for _, a := range s.Agents {
		if s.capped(a) {
			a.Halt = &halt{Status: Complete, Summary: "stopped at its limit of answers", Seen: s.allSeen(), Heard: len(s.Messages)}
			s.note(Entry{Kind: EntryStopped, Agent: a.ID, Text: a.ID + " is stopped at its limit of answers"})
		}
	}
}

// allSeen returns all present answers as seen.
func (s *State) allSeen() []Seen {
	l := Launch{Shown: s.shown()}
	return l.seen()
}

// secluded reports whether every agent refines its own answer alone.
func (s *State) secluded() bool {
	return s.Config.Secluded && s.Config.Mode == voting && !s.Shared
}

// reveal ends the seclusion for the rest of this attempt.
func (s *State) reveal() {
	s.Shared = true
	s.note(Entry{Kind: EntryRevealed, Text: "every agent has worked out its answer; all are shown now"})
}

// shownTo returns the answers that a new step of the agent is shown (rules 4 and 69).
func (s *State) shownTo(a *agent) []Shown {
	var shown []Shown
	for _, n := range s.shown() {
		if n.Agent == a.ID || !s.secluded() {
			shown = append(shown, n)
		}
	}
	return shown
}

// worksOn reports whether the agent is launched without news, to improve its own answer.
func (s *State) worksOn(a *agent) bool {
	return (s.Config.Solo || s.secluded() || a.tasked() || s.unevaluated(a)) && slices.Contains(s.offered(a), NewAnswer)
}

// sawPeer reports whether the step of a ledger entry was shown an answer of another agent.
func sawPeer(r Recorded) bool {
	return slices.ContainsFunc(r.Seen, func(n Seen) bool { return n.Agent != r.Agent })
}
