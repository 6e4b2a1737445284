package coordination

import (
	"slices"
	"strconv"
)

// majority is a majority of final votes that waits for first answers in progress.
type majority struct {
	Label string `json:"label"`          // label of the answer voted for
	Over  bool   `json:"over,omitempty"` // the wait has ended
}

// quorum returns the target of a majority that no outstanding vote can overturn, or nil. It
// withdraws the wait of a majority that no longer exists.
func (s *State) quorum() *agent {
	target := s.finalMajority()
	if s.Majority != nil && (target == nil || target.latestLabel() != s.Majority.Label) {
		s.Majority, s.Waiting = nil, false
	}
	return target
}

// finalMajority returns the target with the fresh votes of more than half of the active
// agents, or nil. It ignores votes that a step in progress can still change, and a target that
// has too little support as long as votes that are out could give it enough.
func (s *State) finalMajority() *agent {
	if !s.Config.Quorum || s.Done() || s.Finale != nil || s.Held() || s.Forced != "" || !s.Config.votes() || s.secluded() || s.belowMinimum() {
		return nil
	}
	for _, target := range s.agents((*agent).answered) {
		final := slices.DeleteFunc(s.voters(target), func(a *agent) bool { return a.Run != nil || a.goesOn() })
		if 2*len(final) > s.active() && !s.awaitsSupport(s.preferred(target)) {
			return target
		}
	}
	return nil
}

// close decides for the target of a quorum after it has waited for first answers in progress.
// During the wait no step begins, but interrupted ones resume.
func (s *State) close(target *agent) move {
	if s.Majority == nil {
		s.Majority = &majority{Label: target.latestLabel()}
	}
	if s.checking() {
		return move{launches: s.relaunch(s.resumable())}
	}
	if !s.Majority.Over && s.Config.QuorumGrace > 0 && s.firstsOut() {
		m := move{launches: s.relaunch(s.resumable())}
		if !s.Waiting {
			s.Waiting = true
			m.wait = &Wait{Seconds: s.Config.QuorumGrace, Firsts: true}
			s.note(Entry{Kind: EntryWaiting, Label: s.Majority.Label, Text: "a majority has voted for " + s.Majority.Label +
				"; first answers under way are waited for, " + strconv.Itoa(m.wait.Seconds) + " s at most"})
		}
		return m
	}
	d := s.confirm(ByQuorum, target)
	s.Majority, s.Waiting = nil, false
	return s.conclude(d)
}

// firstsOut reports whether a step in progress may give its agent's first answer.
func (s *State) firstsOut() bool {
	return slices.ContainsFunc(s.Agents, (*agent).isFirstOut)
}

// isFirstOut reports whether the agent's step in progress may give its first answer.
func (a *agent) isFirstOut() bool {
	return a.active() && !a.answered() && (a.goesOn() || a.Run != nil && a.Run.Launch.may(NewAnswer))
}

// cutting reports whether a quorum was reached without the step, so that its action no longer
// counts.
func (s *State) cutting(run *Launch) bool {
	return s.Finale != nil && !s.Done() && !run.Purpose.ofFinale()
}

// cuts reports whether such a step has yet to report.
func (s *State) cuts() bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Run != nil && s.cutting(&a.Run.Launch) })
}
