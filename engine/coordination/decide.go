package coordination

// move is what follows when the events of a batch are in: a decision, launches
// (none while steps run), never both.
type move struct {
	decision *Decision
	launches []Command
}

// next asks the questions of a session in the order in which they are settled.
// The order is the protocol's: see "Deciding" in the package comment.
func (s *State) next() move {
	idle := !s.running()
	switch {
	case s.Finale != nil:
		return s.finale()
	case s.Config.OnAgentFailure == FailureFail && s.active() < len(s.Agents):
		return decided(s.failure(CauseAgentFailed))
	case idle && !s.Held() && s.settled():
		return s.conclude(s.decide(Consensus, s.majority()))
	case s.Forced != "":
		return decided(s.decide(s.Forced, s.forced()))
	case s.Paused || !idle && !s.affords():
		return move{}
	case s.spent() && !s.parked():
		return decided(s.decide(OverSpent, s.forced()))
	}
	launches := s.relaunch(s.again())
	switch {
	case s.parked():
		return move{launches: launches}
	case idle && s.active() == 0:
		return s.conclude(s.decide(Plurality, s.forced()))
	}
	s.haltCapped()
	launches = append(launches, s.launchWave(s.wave(), false)...)
	if len(launches) > 0 || !idle {
		return move{launches: s.inOrder(launches)}
	}
	return s.quiescent()
}

// settled reports consensus: every active agent is done, no vote stale, and
// one target has the majority. A stale vote at the step limit is an abstention.
func (s *State) settled() bool {
	return s.Config.votes() && len(s.pick(s.wants)) == 0 && s.majority() != nil
}

// quiescent decides when nothing runs and nobody may be launched: every active
// agent is done or at its step limit, and there is no majority.
func (s *State) quiescent() move {
	switch {
	case s.abstentions() > 0:
		return decided(s.decide(Limit, s.forced()))
	case !s.Config.votes():
		return s.conclude(s.decide(Presented, s.unvoted()))
	}
	switch s.Config.OnSplit {
	case SplitFail:
		return decided(s.failure(CauseSplit))
	case SplitRevote:
		if s.Revotes >= s.Config.MaxRevotes {
			break
		}
		if launches := s.launchWave(s.everybody(), true); len(launches) > 0 {
			return move{launches: launches}
		}
		return decided(s.decide(Limit, s.forced()))
	case SplitPlurality:
	}
	return s.conclude(s.decide(Plurality, s.plurality()))
}

// abstentions counts the active agents that have not done what was theirs.
func (s *State) abstentions() int {
	n := 0
	for i := range s.Agents {
		if a := &s.Agents[i]; a.active() && s.owes(a) {
			n++
		}
	}
	return n
}

// unvoted is whose answer stands where nobody votes: the presenter's, and where
// that is not to be had, that of the first configured agent with one.
func (s *State) unvoted() *Agent {
	if a := s.presenter(nil); a != nil && a.answered() {
		return a
	}
	for i := range s.Agents {
		if a := &s.Agents[i]; a.answered() {
			return a
		}
	}
	return nil
}

// decide settles on winner's latest answer. Without a winner there is what an
// earlier attempt of the team came to; without that the session failed.
func (s *State) decide(status Status, winner *Agent) Decision {
	if winner == nil {
		d := s.failure(CauseNoAnswer)
		switch {
		case !status.forced():
		case d.Winner != "":
			d.Status = status
		default:
			d.Asked = status
		}
		return d
	}
	return Decision{
		Status:      status,
		Winner:      winner.ID,
		WinnerLabel: winner.latestLabel(),
		WinnerStep:  winner.latest(),
		Votes:       s.Tally(),
	}
}

// failure ends a session without a winner; but an answer that an earlier
// attempt decided for is never lost.
func (s *State) failure(why Cause) Decision {
	if s.Fallback != nil {
		return s.Fallback.clone()
	}
	return Decision{Status: FailedAll, Cause: why, Votes: s.Tally()}
}

// forced reports whether the decision was called for from outside the team, or
// by a limit. Its status says which, whatever answer it comes to.
func (s Status) forced() bool {
	return s == Finished || s == Timeout || s == OverSpent || s == Limit
}

func decided(d Decision) move { return move{decision: &d} }
