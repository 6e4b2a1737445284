package coordination

import "slices"

// belowMinimum reports whether too few agents are active to decide by vote.
func (s *State) belowMinimum() bool {
	return s.Config.votes() && s.Config.MinActive > 1 && s.active() < s.Config.MinActive
}

// tooFew reports whether the session can no longer reach its minimum of active agents: some
// have failed for good, nobody is asked to retry them, and nobody can join in their place.
func (s *State) tooFew() bool {
	return s.belowMinimum() && !s.parked() && s.active()+s.away(Interrupted, Unreached)+len(s.absent()) < s.Config.MinActive
}

// assemble marks all but the first agents of a new staged team as absent.
func (s *State) assemble() {
	if s.Config.Start == 0 || s.Config.Mode == Decomposition {
		return
	}
	s.Places = min(max(s.Config.Start, s.Config.MinActive), len(s.Agents))
	for _, a := range s.Agents[s.Places:] {
		a.Absent = true
	}
}

// absent returns the agents that have not joined, in configured order.
func (s *State) absent() []*agent { return s.agents(func(a *agent) bool { return a.Absent }) }

// fill makes an absent agent join for each active one that the team lacks. Its step begins at
// once, in the present round.
func (s *State) fill() {
	if s.Done() || s.Finale != nil || s.Held() || s.Forced != "" || s.spent() || s.Config.OnAgentFailure == failureFail {
		return
	}
	for _, a := range s.absent() {
		if s.active() >= s.Places {
			return
		}
		s.join(a, "in place of a failed agent", s.Round-1)
		a.Again = true
	}
}

// grow makes the next agents join if no majority agrees, and returns the launches of the
// wave. Only agents that can be launched join.
func (s *State) grow() []Launch {
	joining := slices.DeleteFunc(s.absent(), func(a *agent) bool { return len(s.offered(a)) == 0 })
	joining = joining[:min(s.Config.Grow, len(joining))]
	if len(joining) == 0 || !s.Config.votes() && s.agreed() != nil {
		return nil
	}
	for _, a := range joining {
		s.join(a, "no majority agrees", s.Round)
	}
	s.Places += len(joining)
	return s.rejoin(s.launchWave(s.wave(), false))
}

// join makes an absent agent a member of the team. Rounds after the given one count for everybody.
func (s *State) join(a *agent, why string, before int) {
	a.Absent = false
	s.Begun = max(s.Begun, before)
	for _, member := range s.Agents {
		member.Begun = member.Rounds
	}
	s.note(Entry{Kind: EntryJoined, Agent: a.ID, Text: a.ID + " joins: " + why})
}

// admit makes an agent on record a member of a staged team.
func (s *State) admit(a *agent) {
	if a.Absent {
		a.Absent = false
		s.Places++
	}
}

// mayAgree reports whether equal first answers can decide: early agreement is configured, and
// no vote of this attempt is in force.
func (s *State) mayAgree() bool {
	c := s.Config
	return c.Early && c.Mode == voting && !c.Secluded && !slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Ballot != nil })
}

// agreement returns the agent whose answer wins by early agreement, or nil. With too little support
// it wins only if nobody can be asked to vote.
func (s *State) agreement() *agent {
	undone := func(a *agent) bool {
		return a.active() && (!a.answered() || a.Retried || s.hasUnread(a, a.Heard))
	}
	if !s.mayAgree() || s.belowMinimum() || slices.ContainsFunc(s.Agents, undone) {
		return nil
	}
	a := s.agreed()
	if a == nil || s.isOutdone(a) || s.lacksSupport(s.givers(a)) && len(s.pick(s.wants)) > 0 {
		return nil
	}
	return a
}

// agreed returns the first configured agent whose answer more than half of the active agents
// gave independently, or nil.
func (s *State) agreed() *agent {
	for _, a := range s.agents(func(a *agent) bool { return a.active() && a.answered() }) {
		if 2*s.givers(a) > s.active() {
			return a
		}
	}
	return nil
}

// givers counts the active agents that independently gave an answer equal to the given agent's.
func (s *State) givers(a *agent) int {
	return len(slices.DeleteFunc(s.pool(a), func(b *agent) bool { return !b.active() }))
}
