// Rules 11 to 15, 18, 70, 82, 83 and 103: who needs a step, who can run, and the actions open to it.

package coordination

import "slices"

// offers decide who needs a step, who can run, and which actions are open to it.
type offers struct{ tally }

func (o *offers) owesAction(a *agent) bool {
	if o.Config.Mode == voting && !o.Config.decidesByVote() {
		return !a.hasAnswer()
	}
	return !o.isFresh(a)
}

func (o *offers) needsLaunch(a *agent) bool {
	if o.isSecluded() && a.hasAnswer() && o.atAnswerLimit(a) {
		return false
	}
	return o.owesAction(a) || o.Config.Mode == voting && !o.Config.decidesByVote() && o.hasUnread(a, a.Heard) && !o.atAnswerLimit(a)
}

func (o *offers) atAnswerLimit(a *agent) bool {
	c := o.Config
	return c.AnswersGlobal > 0 && o.countAnswers() >= c.AnswersGlobal ||
		c.AnswersPerAgent > 0 && c.Mode == voting && a.answerCount() >= c.AnswersPerAgent
}

func (o *offers) canRun(a *agent) bool {
	return a.isActive() && a.Run == nil && (a.hasOpenStep() || !o.atStepLimit(a) || o.isRecalled(a))
}

func (o *offers) atStepLimit(a *agent) bool {
	return a.Steps >= o.Config.MaxStepsPerAgent || o.outOfRounds(&o.roster, a)
}

// isRecalled reports whether an unread message lets the agent act once more at its limit (rule 103).
func (o *offers) isRecalled(a *agent) bool {
	return (o.Config.Mode == Decomposition || o.Config.decidesByVote()) && o.owesAction(a) && o.hasUnread(a, a.Heard)
}

// offeredActions returns the actions open to a step of the agent that is launched together with those of
// beside. Without an open action the agent waits for answers of others.
func (o *offers) offeredActions(a *agent, beside ...*agent) []Action {
	var offered []Action
	if o.mayAnswer(a, beside) {
		offered = append(offered, NewAnswer)
		if a.hasTasks() {
			return offered
		}
	}
	switch {
	case o.Config.Mode == Decomposition:
		offered = append(offered, Stop)
	case o.Config.decidesByVote() && !o.defersVoting() && len(o.shownTo(a)) > 0:
		offered = append(offered, Vote)
	}
	return offered
}

func (o *offers) mayAnswer(a *agent, beside []*agent) bool {
	c := o.Config
	switch {
	case o.atAnswerLimit(a), c.AnswersGlobal > 0 && o.countAnswers()+o.countReserved() >= c.AnswersGlobal:
		return false
	case a.hasAnswer() && o.defersVoting():
		return false
	case a.Steps >= c.MaxStepsPerAgent, !a.hasOpenStep() && o.outOfRounds(&o.roster, a): // recalled by a message
		return false
	case o.inLastRound(&o.roster, a) && a.hasAnswer() && (c.Mode == Decomposition || c.decidesByVote()):
		return false
	}
	return !o.overLeadCap(a, func(peer *agent) bool { return o.mayCatchUp(peer) || slices.Contains(beside, peer) })
}

// countReserved counts the running steps whose answers must not be refused because of a limit.
func (r *roster) countReserved() int {
	return len(r.agentsWhere(func(a *agent) bool {
		return a.Run != nil && a.Run.Launch.Purpose == Coordinate && a.Run.Launch.mayTake(NewAnswer)
	}))
}

func (o *offers) defersVoting() bool {
	c := o.Config
	if !c.DeferVoting && !o.mayAgree() || c.AnswersGlobal > 0 && o.countAnswers() >= c.AnswersGlobal {
		return false
	}
	return slices.ContainsFunc(o.Agents, func(a *agent) bool {
		return a.mayGiveFirstAnswer() || a.isActive() && !a.hasAnswer() && a.Run == nil && !o.atStepLimit(a)
	})
}

func (r *roster) awaitsFirstAnswers() bool {
	return slices.ContainsFunc(r.Agents, (*agent).mayGiveFirstAnswer)
}

func (a *agent) mayGiveFirstAnswer() bool {
	return a.isActive() && !a.hasAnswer() && (a.hasOpenStep() || a.Run != nil && a.Run.Launch.mayTake(NewAnswer))
}

// overLeadCap reports whether one more answer of the agent would exceed the lead cap over a peer
// for which counts is true. A first answer never does.
func (o *offers) overLeadCap(a *agent, counts func(*agent) bool) bool {
	lead := o.Config.LeadCap
	return lead != nil && a.hasAnswer() && slices.ContainsFunc(o.Agents, func(peer *agent) bool {
		return peer != a && counts(peer) && a.answerCount()+1-peer.answerCount() > *lead
	})
}

func (o *offers) mayCatchUp(a *agent) bool {
	return a.isWorking() || o.canRun(a) && (a.hasOpenStep() || o.needsLaunch(a))
}

// waitsForPeer reports whether the agent waits for a slower peer that is running, because the
// peer's answer would make its vote stale.
func (o *offers) waitsForPeer(a *agent) bool {
	return o.overLeadCap(a, (*agent).isWorking)
}

func (o *offers) mustStop(a *agent) bool {
	c := o.Config
	if c.Mode != Decomposition || !o.canRun(a) || !o.owesAction(a) || a.Rest != nil || o.hasUnread(a, a.Heard) {
		return false
	}
	if c.AnswersGlobal > 0 && o.countAnswers() >= c.AnswersGlobal {
		return true
	}
	return c.AnswersPerAgent > 0 && a.Streak >= c.AnswersPerAgent && !o.hasPeerNews(a)
}

// stopAtAnswerLimit applies rule 14.
func (o *offers) stopAtAnswerLimit() {
	if o.Config.Pacing == pacingRounds && o.isBusy() {
		return // the running wave may bring them news
	}
	for _, a := range o.Agents {
		if o.mustStop(a) {
			a.Halt = &halt{Status: Complete, Summary: "stopped at its limit of answers", Seen: o.allSeen(), Heard: len(o.Messages)}
			o.note(Entry{Kind: EntryStopped, Agent: a.ID, Text: a.ID + " is stopped at its limit of answers"})
		}
	}
}

func (o *offers) pickRunnable(match func(*agent) bool) []*agent {
	return o.agentsWhere(func(a *agent) bool { return o.canRun(a) && match(a) })
}

func (o *offers) countAbstentions() int {
	return len(o.agentsWhere(func(a *agent) bool { return a.isActive() && o.owesAction(a) }))
}

func (o *offers) completionPercent() int {
	if o.Done() && o.Outcome.Status != Cancelled {
		return 100
	}
	active := o.countActive()
	if active == 0 {
		return 0
	}
	return min(99, 100*(active-o.countAbstentions())/active)
}

// awaitsSupport reports whether an answer has too few votes that are final, and votes that are out
// could still make them enough.
func (o *offers) awaitsSupport(winner *agent) bool {
	votes, out := 0, 0
	for _, a := range o.agentsWhere((*agent).isActive) {
		switch {
		case a.Run != nil || a.hasOpenStep() || o.canRun(a) && o.needsLaunch(a):
			out++
		case slices.Contains(o.votersFor(winner), a):
			votes++
		}
	}
	return o.lacksSupport(votes) && !o.lacksSupport(votes+out)
}

// earlyWinner returns the agent whose answer wins by early agreement, or nil. With too little support
// it wins only if nobody can be asked to vote.
func (o *offers) earlyWinner() *agent {
	undone := func(a *agent) bool {
		return a.isActive() && (!a.hasAnswer() || a.Retried || o.hasUnread(a, a.Heard))
	}
	if !o.mayAgree() || o.isBelowMinimum() || slices.ContainsFunc(o.Agents, undone) {
		return nil
	}
	a := o.majorityAnswer()
	if a == nil || o.isOutdone(a) || o.lacksSupport(o.countAgreeing(a)) && len(o.pickRunnable(o.needsLaunch)) > 0 {
		return nil
	}
	return a
}
