package coordination

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// move is the reaction to a batch of events: a decision, launches, a wait, or nothing.
type move struct {
	decision *Decision
	launches []Launch
	wait     *Wait
	checks   []Check
}

// next returns the reaction to the events since the last Drain, and starts checks.
func (s *State) next() move {
	s.partFromOutages()
	s.fill()
	quorum := s.quorum()
	checks := s.startChecks(quorum != nil)
	m := s.turn(quorum)
	m.checks = checks
	return m
}

// turn applies the rules of "Deciding" in the package comment, in their order.
func (s *State) turn(quorum *agent) move {
	idle := !s.busy() && !s.checking()
	switch {
	case s.Forced == Cancelled:
		return decided(Decision{Status: Cancelled, Votes: s.Tally(), Voters: s.turnout()})
	case s.Gone:
		return decided(Decision{Status: FailedAll, Cause: causeNoCaller, Votes: s.Tally(), Voters: s.turnout()})
	case s.Finale != nil:
		return s.finale()
	case s.Config.OnAgentFailure == failureFail && s.lost():
		return decided(s.failure(causeAgentFailed))
	case s.tooFew() && s.Forced == "":
		return decided(s.failure(causeTooFew))
	case idle && !s.Held() && s.settled():
		return s.conclude(s.confirm("", s.majority()))
	case idle && !s.Held() && s.agreement() != nil:
		return s.conclude(s.decideBy(ByAgreement, Consensus, s.agreement()))
	case s.Forced != "":
		return decided(s.elect(s.Forced, forced))
	case s.Paused:
		return move{}
	case quorum != nil:
		return s.close(quorum)
	case !idle && !s.Affords():
		return move{}
	case s.spent() && !s.parked():
		return decided(s.elect(OverSpent, forced))
	case s.atCeiling():
		return decided(s.elect(Finished, forced))
	}
	launches := s.relaunch(s.resumable())
	switch {
	case s.parked():
		return move{launches: launches}
	case idle && s.active() == 0 && s.away(Interrupted) > 0:
		return s.wait()
	case idle && s.active() == 0:
		return s.conclude(s.elect(Plurality, forced))
	}
	s.stopCapped()
	launches = append(launches, s.launchNext()...)
	if len(launches) == 0 && idle && s.secluded() {
		s.reveal()
		if s.settled() { // each agent voted for the only answer that it was shown
			return s.conclude(s.confirm("", s.majority()))
		}
		launches = s.launchNext()
	}
	if len(launches) > 0 || !idle {
		return move{launches: s.inOrder(launches)}
	}
	return s.quiescent()
}

// inOrder sorts launches in configured order.
func (s *State) inOrder(launches []Launch) []Launch {
	slices.SortStableFunc(launches, func(x, y Launch) int { return cmp.Compare(s.index(x.Agent), s.index(y.Agent)) })
	return launches
}

// settled reports whether there is a consensus: every active agent is done, no vote is stale,
// and one target has the majority. At the step limit, a stale vote is an abstention.
func (s *State) settled() bool {
	due := s.pick(func(a *agent) bool { return a.Retried || s.wants(a) })
	return s.Config.votes() && !s.secluded() && !s.belowMinimum() && len(due) == 0 && s.majority() != nil
}

// quiescent decides when nothing runs and no agent can be launched: every active agent
// is done or at its step limit, and there is no majority.
func (s *State) quiescent() move {
	switch {
	case s.belowMinimum():
		return s.missing()
	case s.abstentions() > 0:
		return decided(s.elect(Limit, forced))
	}
	if launches := s.grow(); len(launches) > 0 {
		return move{launches: s.inOrder(launches)}
	}
	if !s.Config.votes() {
		return s.conclude(s.unvoted())
	}
	return s.split()
}

// split decides when all votes are fresh and no answer has the majority.
func (s *State) split() move {
	switch s.Config.OnSplit {
	case SplitFail:
		return decided(s.failure(causeSplit))
	case splitRevote:
		if s.Revotes >= s.Config.MaxRevotes || len(s.agents(func(a *agent) bool { return a.active() && s.outOfRounds(a) })) > 0 {
			break
		}
		if launches := s.rejoin(s.launchWave(s.revoters(), true)); len(launches) > 0 {
			return move{launches: s.inOrder(launches)}
		}
		return decided(s.elect(Limit, forced))
	case splitPlurality:
	}
	return s.conclude(s.elect(Plurality, plurality))
}

// abstentions counts the active agents that still owe an action.
func (s *State) abstentions() int {
	return len(s.agents(func(a *agent) bool { return a.active() && s.owes(a) }))
}

// unvoted returns the decision where nobody votes. The winner is the presenter if it has an
// answer, else the first configured agent with one.
func (s *State) unvoted() Decision {
	if a := s.presenter(nil); a.answered() {
		return s.decide(Presented, a)
	}
	return s.elect(Presented, func(standing, standing) int { return 0 })
}

// decide returns the decision for winner's latest answer. Without a winner it returns the
// decision of an earlier attempt of the team, or else a failure.
func (s *State) decide(status Status, winner *agent) Decision { return s.decideBy("", status, winner) }

// decideBy is decide for a decision that does not follow from votes alone.
func (s *State) decideBy(by Basis, status Status, winner *agent) Decision {
	if winner == nil {
		d := s.failure(causeNoAnswer)
		switch {
		case !status.forced():
		case d.Winner != "":
			d.Status = status
		default:
			d.Asked = status
		}
		return d
	}
	if s.active() == 0 && status != Finished && status != Timeout {
		return s.failure(causeAllFailed)
	}
	d := Decision{
		Status:      status,
		Winner:      winner.ID,
		WinnerLabel: winner.latestLabel(),
		WinnerStep:  winner.latest(),
		Votes:       s.Tally(),
		Voters:      s.turnout(),
		Tied:        s.tied(winner),
		By:          by,
	}
	s.weigh(&d, winner)
	return d
}

// failure returns the decision of a session without a winner: that of an earlier attempt, if
// any, else a failure because of why. If every agent has failed, it has the best answer.
func (s *State) failure(why cause) Decision {
	if s.Fallback != nil {
		d := s.Fallback.clone()
		d.Earlier = true
		return d
	}
	d := Decision{Status: FailedAll, Cause: why, Votes: s.Tally(), Voters: s.turnout()}
	if best := s.best(s.Config.Ballot, forced); best != nil && s.active() == 0 {
		d.Final = &Shown{Agent: best.ID, Number: best.Number, Label: best.latestLabel(), Step: best.latest()}
	}
	return d
}

// forced reports whether a person, the clock or a limit forced the decision.
func (s Status) forced() bool {
	return s == Finished || s == Timeout || s == OverSpent || s == Limit
}

func decided(d Decision) move { return move{decision: &d} }

// Drain returns the commands that follow from the events since the last Drain: first records
// in ledger order, then a ring, then cancels, and finally launches or the end. The last part
// is empty while steps run or the session is held. Each command is returned once.
func (s *State) Drain() []Command {
	var commands []Command
	for _, entry := range s.Pending {
		commands = append(commands, Record{Entry: entry})
	}
	s.Pending = nil
	if s.Done() {
		return commands
	}
	next := s.next()
	if next.decision != nil {
		return append(commands, s.end(*next.decision, next.checks)...)
	}
	commands = append(commands, s.ring(s.directive())...)
	if s.Paused {
		commands = append(commands, s.cancel(true)...)
	}
	if s.cuts() {
		commands = append(commands, s.cancel(false)...)
	}
	if len(next.launches) > 0 && s.Majority == nil {
		s.Waiting = false
	}
	commands = append(commands, s.share(next.launches)...)
	for _, c := range next.checks {
		commands = append(commands, c)
	}
	if next.wait != nil {
		commands = append(commands, *next.wait)
	}
	return append(commands, s.ask()...)
}

// end ends the session. Cancelled runs stay in the state, so that their usage counts when
// they report. Unstarted are the checks whose commands Drain has not yet returned.
func (s *State) end(d Decision, unstarted []Check) []Command {
	s.Outcome = &d
	s.Forced, s.Paused, s.Waiting, s.Majority = "", false, false, nil
	s.Calling, s.Gone = false, false
	kind := EntryCancelled
	if d.Status != Cancelled {
		kind = EntryDecided
		s.Finale = nil // the finale of a cancelled session is kept: it continues if the session is reopened
	}
	s.note(Entry{Kind: kind, Agent: d.Winner, Step: d.WinnerStep, Label: d.WinnerLabel, Text: d.text()})
	commands := s.ring(s.directive())
	commands = append(commands, s.cancel(false)...)
	commands = append(commands, s.cancelChecks(unstarted)...)
	return append(commands, Done{Decision: s.Decision()})
}

// cancel ends the running steps that were not cancelled before.
func (s *State) cancel(suspend bool) []Command {
	var commands []Command
	for _, a := range s.Agents {
		if a.Run.waits() {
			if !suspend {
				s.letGo(a)
			}
			continue
		}
		if a.Run != nil && !a.Run.Cancelled {
			a.Run.Cancelled = true
			commands = append(commands, Cancel{ID: a.Run.Launch.ID, Suspend: suspend})
		}
	}
	return commands
}

func (c cause) text() string {
	switch c {
	case causeSplit:
		return "the votes are split"
	case causeAgentFailed:
		return "an agent failed"
	case causeTooFew:
		return "too few agents are left to vote"
	case causeNoCaller:
		return "the caller did not return the results of its tools"
	case causeAllFailed:
		return "every agent failed, and no vote counts"
	case causeNoAnswer:
	}
	return "nobody has an answer"
}

func (d Decision) text() string {
	if d.Status == Cancelled {
		return "the session was cancelled"
	}
	if d.Winner == "" {
		why := string(d.Status) + ": " + d.Cause.text()
		if d.Final != nil {
			why += "; the best answer is " + d.Final.Label
		}
		return why
	}
	text := string(d.Status) + ": " + d.Winner + " (" + d.WinnerLabel + ")"
	if len(d.Cut) > 0 {
		if d.By == ByQuorum {
			text += " by a quorum,"
		}
		text += " without " + strings.Join(d.Cut, ", ")
	}
	if d.Status == Undecided {
		text += fmt.Sprintf(" has the support of %.0f percent of the agents", 100*d.Support.Share)
	}
	return text
}

// noun returns the name of the decision in the timeline.
func (d Decision) noun() string {
	switch {
	case d.Status == Cancelled:
		return "cancellation"
	case d.Winner == "":
		return "end of the session"
	}
	return "decision"
}

// Tally counts the fresh votes by target, in configured order, without targets that have
// none. Failed agents do not vote, but can be voted for.
func (s *State) Tally() []count {
	counts := []count{}
	for _, target := range s.Agents {
		if n := len(s.voters(target)); n > 0 {
			counts = append(counts, count{Target: target.ID, Votes: n})
		}
	}
	return counts
}

// turnout returns the IDs of the agents with a fresh vote, in configured order.
func (s *State) turnout() []string {
	var ids []string
	for _, a := range s.Agents {
		if a.Ballot != nil && s.fresh(a) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// voters returns the agents with a fresh vote for target.
func (s *State) voters(target *agent) []*agent {
	return s.agents(func(a *agent) bool { return a.Ballot != nil && a.Ballot.Target == target.ID && s.fresh(a) })
}

// majority returns the target with the fresh votes of more than half of the active agents, or
// nil.
func (s *State) majority() *agent {
	n := s.active()
	for _, c := range s.Tally() {
		if 2*c.Votes > n {
			return s.agent(c.Target)
		}
	}
	return nil
}
