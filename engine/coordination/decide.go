package coordination

// move is what follows when the events of a batch are in: a decision, a wave
// (which may be empty while steps run), never both.
type move struct {
	decision *Decision
	wave     wave
}

// next asks the questions of a session in the order in which they are settled.
// The order is the protocol's: see "Deciding" in the package comment.
func (s *State) next() move {
	idle := !s.running()
	switch {
	case s.Config.OnAgentFailure == FailureFail && s.active() < len(s.Agents):
		return decided(s.failure(CauseAgentFailed))
	case idle && s.settled():
		return decided(s.decide(Consensus, s.majority()))
	case s.Forced != "":
		return decided(s.decide(s.Forced, s.forced()))
	case !idle:
		return move{}
	case s.active() == 0:
		return decided(s.decide(Plurality, s.forced()))
	}
	if w := s.unheard(); len(w.agents) > 0 {
		return move{wave: w}
	}
	return s.quiescent()
}

// settled reports consensus: every active agent is done, no vote stale, and
// one target has the majority. A stale vote at the step limit is an abstention.
func (s *State) settled() bool {
	return len(s.unheard().agents) == 0 && s.majority() != nil
}

// quiescent decides when nothing runs and nobody has anything new to look at:
// every active agent has a fresh vote or is at its step limit, and there is no
// majority.
func (s *State) quiescent() move {
	if s.abstentions() > 0 {
		return decided(s.decide(Limit, s.forced()))
	}
	switch s.Config.OnSplit {
	case SplitFail:
		return decided(s.failure(CauseSplit))
	case SplitRevote:
		if s.Revotes >= s.Config.MaxRevotes {
			break
		}
		if w := s.everybody(); len(w.agents) > 0 {
			return move{wave: w}
		}
		return decided(s.decide(Limit, s.forced()))
	case SplitPlurality:
	}
	return decided(s.decide(Plurality, s.plurality()))
}

// abstentions counts the active agents without a fresh vote.
func (s *State) abstentions() int {
	n := 0
	for i := range s.Agents {
		if a := &s.Agents[i]; a.active() && !s.fresh(a) {
			n++
		}
	}
	return n
}

// decide settles on winner's latest answer; without a winner the session failed.
func (s *State) decide(status Status, winner *Agent) Decision {
	if winner == nil {
		return s.failure(CauseNoAnswer)
	}
	return Decision{
		Status:      status,
		Winner:      winner.ID,
		WinnerLabel: winner.latestLabel(),
		WinnerStep:  winner.latest(),
		Votes:       s.Tally(),
	}
}

func (s *State) failure(why Cause) Decision {
	return Decision{Status: FailedAll, Cause: why, Votes: s.Tally()}
}

func decided(d Decision) move { return move{decision: &d} }
