// Rules 30 to 39, 76 to 78, 80 and 81: the questions of "Deciding". Rules 49 to 52: Drain.

package coordination

import (
	"slices"
	"strconv"
)

// Drain returns the commands that follow from the events since the last Drain: first records
// in ledger order, then a ring, then cancels, and finally launches or the end. The last part
// is empty while steps run or the session is held. Each command is returned once.
func (s *State) Drain() []Command {
	commands := s.handOut()
	if s.Done() {
		return commands
	}
	next := s.nextMove()
	if next.decision != nil {
		return append(commands, s.endSession(*next.decision, next.checks)...)
	}
	commands = append(commands, s.ringBell(s.currentDirective())...)
	if s.Paused {
		commands = append(commands, s.cancelSteps(true)...)
	}
	if s.hasCutSteps() {
		commands = append(commands, s.cancelSteps(false)...)
	}
	if len(next.launches) > 0 && s.Majority == nil {
		s.Waiting = false
	}
	commands = append(commands, s.shareBudget(next.launches)...)
	for _, c := range next.checks {
		commands = append(commands, c)
	}
	if next.wait != nil {
		commands = append(commands, *next.wait)
	}
	return append(commands, s.askCaller(s.AwaitsCaller() && !s.Paused, s.Config.CallerSeconds)...)
}

// endSession ends the session. Cancelled runs stay in the state, so that their usage counts when
// they report. Unstarted are the checks whose commands Drain has not yet returned.
func (s *State) endSession(d Decision, unstarted []Check) []Command {
	s.Outcome = &d
	s.Forced, s.Paused = "", false
	s.dropMajority()
	s.Calling, s.Gone = false, false
	kind := EntryCancelled
	if d.Status != Cancelled {
		kind = EntryDecided
		s.Finale = nil // the finale of a cancelled session is kept: it continues if the session is reopened
	}
	s.note(Entry{Kind: kind, Agent: d.Winner, Step: d.WinnerStep, Label: d.WinnerLabel, Text: d.text()})
	commands := s.ringBell(s.currentDirective())
	commands = append(commands, s.cancelSteps(false)...)
	commands = append(commands, s.cancelChecks(unstarted)...)
	return append(commands, Done{Decision: s.Decision()})
}

func (s *State) cancelSteps(suspend bool) []Command {
	var commands []Command
	for _, a := range s.Agents {
		switch {
		case a.Run.awaitsOthers() && suspend:
		case a.Run.awaitsOthers() && s.Done() && s.Outcome.Winner == "":
			s.noteAll(s.withdraw(a))
			a.endWait().Launch.Owed = true
		case a.Run.awaitsOthers():
			s.noteAll(s.withdraw(a))
			a.Run = nil
		case a.Run != nil && !a.Run.Cancelled:
			a.Run.Cancelled = true
			commands = append(commands, Cancel{ID: a.Run.Launch.ID, Suspend: suspend})
		}
	}
	return commands
}

func (s *State) nextMove() move {
	s.updateAway()
	s.fillPlaces()
	quorum := s.checkQuorum()
	checks := s.startDueChecks(quorum != nil)
	m := s.turn(quorum)
	m.checks = checks
	return m
}

// turn asks the questions of "Deciding" in their order. The first yes decides.
func (s *State) turn(quorum *agent) move {
	idle := s.isIdle()
	free := idle && !s.Held()
	agreed := s.earlyWinner()
	for _, question := range []struct {
		yes  bool
		move func() move
	}{
		// 66. Is the session cancelled?
		{s.Forced == Cancelled, func() move { return s.endUndecided(Cancelled, "") }},
		// 101. Is the caller gone?
		{s.Gone, func() move { return s.endUndecided(FailedAll, causeNoCaller) }},
		// 44. Is a final answer being made?
		{s.Finale != nil, s.finalMove},
		// 30. Does a failed agent end the session?
		{s.Config.OnAgentFailure == failureFail && s.hasLostAgent(), func() move { return endWith(s.failureFor(causeAgentFailed)) }},
		// 68. Are too few agents left to vote?
		{s.Forced == "" && !s.isParked() && s.hasTooFewLeft(), func() move { return endWith(s.failureFor(causeTooFew)) }},
		// 31. Have all voted, and a majority agrees?
		{free && s.hasConsensus(), func() move { return s.startFinale(s.confirmMajority("", s.majorityTarget())) }},
		// 82. Has a majority given equal answers?
		{free && agreed != nil, func() move { return s.startFinale(s.decisionFor(ByAgreement, Consensus, agreed)) }},
		// 32. Does a person or the clock force a decision?
		{s.Forced != "", func() move { return endWith(s.electBest(s.Forced, compareForced)) }},
		// 33. Is the session paused?
		{s.Paused, func() move { return move{} }},
		// 76. Is there a majority that no outstanding vote can overturn?
		{quorum != nil, func() move { return s.closeQuorum(quorum) }},
		// 34. Is the budget granted to running steps, or spent?
		{!idle && !s.Affords(), func() move { return move{} }},
		{s.isBudgetSpent() && !s.isParked(), func() move { return endWith(s.electBest(OverSpent, compareForced)) }},
		// 89. Is every answer at its plateau?
		{s.atCeiling(), func() move { return endWith(s.electBest(Finished, compareForced)) }},
	} {
		if question.yes {
			return question.move()
		}
	}
	return s.launchOrDecide(idle)
}

func (s *State) endUndecided(status Status, why cause) move {
	return endWith(Decision{Status: status, Cause: why, Votes: s.Tally(), Voters: s.voterIDs()})
}

// launchOrDecide applies rules 36 to 39.
func (s *State) launchOrDecide(idle bool) move {
	launches := s.relaunchSteps(s.resumableAgents())
	switch {
	case s.isParked():
		return move{launches: launches}
	case idle && s.countActive() == 0 && s.countOutages(Interrupted) > 0:
		return s.waitForServers()
	case idle && s.countActive() == 0:
		return s.startFinale(s.electBest(Plurality, compareForced))
	}
	s.stopAtAnswerLimit()
	launches = append(launches, s.launchNext()...)
	if len(launches) == 0 && idle && s.isSecluded() {
		s.revealAnswers()
		if s.hasConsensus() { // each agent voted for the only answer that it was shown
			return s.startFinale(s.confirmMajority("", s.majorityTarget()))
		}
		launches = s.launchNext()
	}
	if len(launches) > 0 || !idle {
		return move{launches: s.sortLaunches(launches)}
	}
	return s.decideIdle()
}

// hasConsensus applies rule 31, except for its first conditions.
func (s *State) hasConsensus() bool {
	due := s.pickRunnable(func(a *agent) bool { return a.Retried || s.needsLaunch(a) })
	return s.Config.decidesByVote() && !s.isSecluded() && !s.isBelowMinimum() && len(due) == 0 && s.majorityTarget() != nil
}

// decideIdle decides when nothing runs, nobody can be launched and there is no majority.
func (s *State) decideIdle() move {
	switch {
	case s.isBelowMinimum():
		return s.awaitMissing()
	case s.countAbstentions() > 0:
		return endWith(s.electBest(Limit, compareForced))
	}
	if launches := s.growTeam(); len(launches) > 0 {
		return move{launches: s.sortLaunches(launches)}
	}
	if !s.Config.decidesByVote() {
		return s.startFinale(s.decideUnvoted())
	}
	return s.decideSplit()
}

func (s *State) decideSplit() move {
	switch s.Config.OnSplit {
	case SplitFail:
		return endWith(s.failureFor(causeSplit))
	case splitRevote:
		if s.Revotes >= s.Config.MaxRevotes || len(s.agentsWhere(func(a *agent) bool { return a.isActive() && s.outOfRounds(&s.roster, a) })) > 0 {
			break
		}
		if launches := s.rejoinWave(s.launchWave(s.pickRevoters(), true)); len(launches) > 0 {
			return move{launches: s.sortLaunches(launches)}
		}
		return endWith(s.electBest(Limit, compareForced))
	case splitPlurality:
	}
	return s.startFinale(s.electBest(Plurality, comparePlurality))
}

func (s *State) decideUnvoted() Decision {
	if a := s.presenterFor(nil); a.hasAnswer() {
		return s.decisionFor("", Presented, a)
	}
	return s.electBest(Presented, compareUnvoted)
}

// checkQuorum returns the target of a majority that no outstanding vote can overturn, or nil. It
// withdraws the wait of a majority that no longer exists.
func (s *State) checkQuorum() *agent {
	target := s.finalMajority()
	s.keepMajority(target.latestLabel())
	return target
}

// finalMajority returns the target with the fresh votes of more than half of the active
// agents, or nil. It ignores votes that a step in progress can still change, and a target that
// has too little support as long as votes that are out could give it enough.
func (s *State) finalMajority() *agent {
	if !s.Config.Quorum || !s.isUndecided() || !s.Config.decidesByVote() || s.isSecluded() || s.isBelowMinimum() {
		return nil
	}
	for _, target := range s.agentsWhere((*agent).hasAnswer) {
		final := slices.DeleteFunc(s.votersFor(target), func(a *agent) bool { return a.Run != nil || a.hasOpenStep() })
		if majority(len(final), s.countActive()) && !s.awaitsSupport(s.preferredWinner(target)) {
			return target
		}
	}
	return nil
}

// closeQuorum decides for the target of a quorum after it has waited for first answers in progress.
// During the wait no step begins, but interrupted ones resume.
func (s *State) closeQuorum(target *agent) move {
	if s.Majority == nil {
		s.Majority = &awaitedMajority{Label: target.latestLabel()}
	}
	if s.hasChecksRunning(&s.roster) {
		return move{launches: s.relaunchSteps(s.resumableAgents())}
	}
	if !s.Majority.Over && s.Config.QuorumGrace > 0 && s.awaitsFirstAnswers() {
		m := move{launches: s.relaunchSteps(s.resumableAgents())}
		if m.wait = s.awaitFirsts(s.Config.QuorumGrace); m.wait != nil {
			s.note(Entry{Kind: EntryWaiting, Label: s.Majority.Label, Text: "a majority has voted for " + s.Majority.Label +
				"; first answers under way are waited for, " + strconv.Itoa(m.wait.Seconds) + " s at most"})
		}
		return m
	}
	d := s.confirmMajority(ByQuorum, target)
	s.dropMajority()
	return s.startFinale(d)
}

// fillPlaces makes an absent agent join for each active one that the team lacks. Its step begins at
// once, in the present round.
func (s *State) fillPlaces() {
	if !s.isUndecided() || s.isBudgetSpent() || s.Config.OnAgentFailure == failureFail {
		return
	}
	for _, a := range s.absentAgents() {
		if s.countActive() >= s.Places {
			return
		}
		s.admitNext(a, "in place of a failed agent", s.Round-1)
		a.Again = true
	}
}

// growTeam makes the next agents join if no majority agrees, and returns the launches of the
// wave. Only agents that can be launched join.
func (s *State) growTeam() []Launch {
	joining := slices.DeleteFunc(s.absentAgents(), func(a *agent) bool { return len(s.offeredActions(a)) == 0 })
	joining = joining[:min(s.Config.Grow, len(joining))]
	if len(joining) == 0 || !s.Config.decidesByVote() && s.majorityAnswer() != nil {
		return nil
	}
	for _, a := range joining {
		s.admitNext(a, "no majority agrees", s.Round)
	}
	s.Places += len(joining)
	return s.rejoinWave(s.launchWave(s.nextWave(), false))
}

func (s *State) admitNext(a *agent, why string, before int) {
	s.joinTeam(&s.roster, a, before)
	s.note(Entry{Kind: EntryJoined, Agent: a.ID, Text: a.ID + " joins: " + why})
}
