package coordination

import "slices"

// owes reports whether a has something left to do in this attempt: a vote to
// cast or cast again, a part to stop on, or, where nobody votes, an answer to
// give.
func (s *State) owes(a *Agent) bool {
	if s.Config.Mode == Voting && !s.Config.votes() {
		return !a.answered()
	}
	return !s.fresh(a)
}

// wants reports whether a is to be launched if it can be: it owes something, or
// it has an answer that does not know what people have said since.
func (s *State) wants(a *Agent) bool {
	return s.owes(a) || s.Config.Mode == Voting && !s.Config.votes() && s.unheard(a, a.Heard) && !s.full(a)
}

// full reports whether a limit leaves a no further answer.
func (s *State) full(a *Agent) bool {
	c := s.Config
	return c.AnswersGlobal > 0 && s.total() >= c.AnswersGlobal ||
		c.AnswersPerAgent > 0 && c.Mode == Voting && a.given() >= c.AnswersPerAgent
}

// able reports whether a may be launched at all.
func (s *State) able(a *Agent) bool {
	return a.active() && a.Run == nil && a.Steps < s.Config.MaxStepsPerAgent
}

// offered are the actions that a step of a launched now may end with, beside
// those that are launched together with it, if any. Where there is none, the
// agent waits: for others to answer, or for an answer that somebody else may be
// giving.
func (s *State) offered(a *Agent, beside ...*Agent) []Action {
	var offered []Action
	if s.mayAnswer(a, beside) {
		offered = append(offered, NewAnswer)
	}
	switch {
	case s.Config.Mode == Decomposition:
		offered = append(offered, Stop)
	case s.Config.votes() && !s.deferred() && len(s.shown()) > 0:
		offered = append(offered, Vote)
	}
	return offered
}

func (s *State) mayAnswer(a *Agent, beside []*Agent) bool {
	c := s.Config
	switch {
	case s.full(a), c.AnswersGlobal > 0 && s.total()+s.reserved() >= c.AnswersGlobal:
		return false
	case a.answered() && s.deferred():
		return false
	}
	return !s.ahead(a, func(peer *Agent) bool { return s.contends(peer) || slices.Contains(beside, peer) })
}

// total is the number of answers given in this attempt.
func (s *State) total() int {
	n := 0
	for i := range s.Agents {
		n += s.Agents[i].given()
	}
	return n
}

// reserved counts the running steps that may still answer. They have been
// promised that they may, so that no work is refused for a limit.
func (s *State) reserved() int {
	n := 0
	for i := range s.Agents {
		if run := s.Agents[i].Run; run != nil && run.Launch.Purpose == Coordinate && run.Launch.may(NewAnswer) {
			n++
		}
	}
	return n
}

// deferred reports whether votes wait for first answers: somebody can still
// give one, and it is asked that all have.
func (s *State) deferred() bool {
	c := s.Config
	if !c.DeferVoting || c.AnswersGlobal > 0 && s.total() >= c.AnswersGlobal {
		return false
	}
	return slices.ContainsFunc(s.Agents, func(a Agent) bool {
		return a.active() && !a.answered() && (a.Run != nil || a.Steps < c.MaxStepsPerAgent)
	})
}

// ahead reports whether one more answer would take a further ahead of the
// slowest of the peers that count than the cap allows. A first answer is never
// held back.
func (s *State) ahead(a *Agent, counts func(*Agent) bool) bool {
	if s.Config.LeadCap == nil || !a.answered() {
		return false
	}
	for i := range s.Agents {
		peer := &s.Agents[i]
		if peer.ID != a.ID && counts(peer) && a.given()+1-peer.given() > *s.Config.LeadCap {
			return true
		}
	}
	return false
}

// contends reports whether a peer may still come up: it works, or will.
func (s *State) contends(a *Agent) bool {
	goesOn := a.Rest != nil || a.Again || a.Retried
	return a.Run != nil || s.able(a) && (goesOn || s.wants(a))
}

// waits reports whether a holds back for a slower peer at work: a step now would
// be spent on a vote that the peer's answer makes stale.
func (s *State) waits(a *Agent) bool {
	return s.ahead(a, func(peer *Agent) bool { return peer.Run != nil })
}

// capped reports whether a, in decomposition, has come to a limit of answers
// and has heard everything that was said: it is stopped without being asked.
func (s *State) capped(a *Agent) bool {
	c := s.Config
	if c.Mode != Decomposition || !s.able(a) || !s.owes(a) || a.Rest != nil || s.unheard(a, a.Heard) {
		return false
	}
	if c.AnswersGlobal > 0 && s.total() >= c.AnswersGlobal {
		return true
	}
	return c.AnswersPerAgent > 0 && a.Streak >= c.AnswersPerAgent && !s.peersNew(a)
}

// haltCapped stops the agents that are at a limit (seed 001: hit limits
// auto-stop the agent instead of vote-only mode).
func (s *State) haltCapped() {
	if s.Config.Pacing == Rounds && s.running() {
		return // what the wave brings may be new to them
	}
	for i := range s.Agents {
		if a := &s.Agents[i]; s.capped(a) {
			a.Halt = &Halt{Status: Complete, Summary: "stopped at its limit of answers", Seen: s.everything(), Heard: len(s.Messages)}
			s.note(Entry{Kind: EntryStopped, Agent: a.ID, Text: a.ID + " is stopped at its limit of answers"})
		}
	}
}

// everything is what an agent that was shown all there is has seen.
func (s *State) everything() []Seen {
	l := Launch{Shown: s.shown()}
	return l.seen()
}
