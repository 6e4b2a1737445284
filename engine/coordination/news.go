// Rules 4, 16, 17, 22, 23, 69 and 71: the answers and messages that agents are shown, and stale votes.

package coordination

import (
	"slices"
	"strings"
)

// tally finds stale votes, ranks answers by fresh ones, and counts their support.
type tally struct{ facts }

func (t *tally) isStale(a *agent, seen []Seen, heard int) bool {
	return hasNewerAnswer(a, seen) || t.hasUnseenPeer(a, seen) || t.hasUnread(a, heard)
}

func hasNewerAnswer(a *agent, seen []Seen) bool {
	return a.hasAnswer() && seenStep(seen, a.ID) < a.latestStep()
}

// boundSeen limits seen as rule 17 says, with one entry for each agent, in byte order of the
// IDs. An entry beyond the latest answer would keep a vote fresh when later answers come.
func (r *roster) boundSeen(seen []Seen) []Seen {
	var kept []Seen
	for _, n := range seen {
		a := r.agentOf(n.Agent)
		if a == nil || n.Step <= 0 || !a.hasAnswer() {
			continue
		}
		n.Step = min(n.Step, a.latestStep())
		at, found := slices.BinarySearchFunc(kept, n.Agent, byAgent)
		if found {
			kept[at].Step = max(kept[at].Step, n.Step)
			continue
		}
		kept = slices.Insert(kept, at, n)
	}
	return kept
}

// boundHeard limits the number of the last message that a step claims to have received.
func (p *people) boundHeard(claimed int) int { return min(max(claimed, 0), len(p.Messages)) }

func (f *facts) isSecluded() bool {
	return f.Config.Secluded && f.Config.Mode == voting && !f.Shared
}

func (f *facts) revealAnswers() {
	f.Shared = true
	f.note(Entry{Kind: EntryRevealed, Text: "every agent has worked out its answer; all are shown now"})
}

func (f *facts) shownTo(a *agent) []Shown {
	var shown []Shown
	for _, n := range f.shownAnswers() {
		if n.Agent == a.ID || !f.isSecluded() {
			shown = append(shown, n)
		}
	}
	return shown
}

func (p *people) messagesFor(a *agent) []Message {
	var mine []Message
	for _, m := range p.Messages {
		if m.Agent == "" || m.Agent == a.ID {
			mine = append(mine, m)
		}
	}
	return mine
}

// hasMessages reports whether there are messages to the agent with numbers in (after, upTo].
func (p *people) hasMessages(a *agent, after, upTo int) bool {
	return slices.ContainsFunc(p.messagesFor(a), func(m Message) bool { return m.Number > after && m.Number <= upTo })
}

func (t *tally) hasUnseenPeer(a *agent, seen []Seen) bool {
	return !t.isSecluded() && slices.ContainsFunc(t.Agents, func(peer *agent) bool { return peer != a && hasNewerAnswer(peer, seen) })
}

// hasUnread reports whether there are messages to the agent after number heard that make a vote
// stale. Messages after the decision do not.
func (f *facts) hasUnread(a *agent, heard int) bool {
	if f.Settled != nil {
		return f.hasMessages(a, heard, *f.Settled)
	}
	return f.hasMessages(a, heard, len(f.Messages))
}

func (t *tally) isFresh(a *agent) bool {
	switch {
	case a.Ballot != nil:
		return !t.isStale(a, a.Ballot.Seen, a.Ballot.Heard)
	case a.Halt != nil:
		return !t.isStale(a, a.Halt.Seen, a.Halt.Heard)
	}
	return false
}

func (t *tally) hasPeerNews(a *agent) bool { return t.hasUnseenPeer(a, a.Known) }

func (t *tally) hasNews(a *agent) bool {
	return !a.Ran || t.hasPeerNews(a) || t.hasUnread(a, a.Heard)
}

func (t *tally) isOutdated(run *Launch) bool {
	return t.hasUnseenPeer(t.agentOf(run.Agent), run.seenAnswers())
}

func describeOutdated(fresh []*agent) string {
	if len(fresh) == 0 {
		return ""
	}
	what := "vote"
	if fresh[0].Halt != nil {
		what = "stop"
	}
	ids := idsOf(fresh)
	last := len(ids) - 1
	if last == 0 {
		return "; the " + what + " of " + ids[0] + " is stale now"
	}
	return "; the " + what + "s of " + strings.Join(ids[:last], ", ") + " and " + ids[last] + " are stale now"
}

func (t *tally) staleRemark(a *agent) string {
	if t.isFresh(a) {
		return ""
	}
	return ", stale already"
}

func (t *tally) voteRemark(a *agent, newest string) string {
	if stale := t.staleRemark(a); stale != "" || a.Ballot.TargetLabel == newest {
		return stale
	}
	return ", which counts for " + newest
}

// ringBell returns a ring if there is a new directive, or news for a running step. It returns
// none otherwise, because each ring adds an event to the history.
func (f *facts) ringBell(directive Directive) []Command {
	if !f.hasRunningStep() {
		return nil
	}
	bell := Ring{
		Epoch: f.Bell.Epoch + 1, Earlier: len(f.Earlier),
		Answers: f.shownAnswers(), Messages: slices.Clone(f.Messages), Directive: directive,
	}
	if directive == f.Bell.Directive && !f.bringsNews(bell) {
		return nil
	}
	f.Bell = bell
	return []Command{bell.clone()}
}

// bringsNews reports whether bell has news for a running step that the last ring did not have.
func (f *facts) bringsNews(bell Ring) bool {
	return slices.ContainsFunc(f.Agents, func(a *agent) bool {
		return a.Run != nil && (f.bringsAnswer(bell, &a.Run.Launch) || f.bringsMessage(bell, &a.Run.Launch))
	})
}

func (f *facts) bringsAnswer(bell Ring, run *Launch) bool {
	if run.Updates.Mode == noUpdates {
		return false
	}
	seen := run.seenAnswers()
	return slices.ContainsFunc(bell.Answers, func(n Shown) bool {
		return n.Agent != run.Agent && n.Step > seenStep(seen, n.Agent) && n.Step > f.Bell.latestStep(n.Agent)
	})
}

func (f *facts) bringsMessage(bell Ring, run *Launch) bool {
	return slices.ContainsFunc(bell.Messages, func(m Message) bool {
		return (m.Agent == "" || m.Agent == run.Agent) && m.Number > run.lastMessage() && m.Number > len(f.Bell.Messages)
	})
}

func (f *facts) currentDirective() Directive {
	switch {
	case f.Done() || f.hasCutSteps():
		return Ending
	case f.Paused || f.awaitsCancelled():
		return Pausing
	case f.Short || f.isBudgetSpent():
		return WrapUp
	}
	return carryOn
}

// awaitsCancelled reports whether a cancelled step has yet to report. Until then it must be able
// to read the reason.
func (r *roster) awaitsCancelled() bool {
	return slices.ContainsFunc(r.Agents, func(a *agent) bool { return a.Run != nil && a.Run.Cancelled })
}

// isCut reports whether a quorum was reached without the step.
func (f *facts) isCut(run *Launch) bool {
	return f.Finale != nil && !f.Done() && !run.Purpose.isOfFinale()
}

func (f *facts) hasCutSteps() bool {
	return slices.ContainsFunc(f.Agents, func(a *agent) bool { return a.Run != nil && f.isCut(&a.Run.Launch) })
}

// updatesFor returns the limits of rule 23 for a step of the agent.
func (f *facts) updatesFor(a *agent) Updates {
	c := f.Config
	switch {
	case c.Updates == noUpdates || !a.hasAnswer() || f.isSecluded():
		return Updates{}
	case c.DeferUpdates && !c.BeforeChecklist:
		return Updates{}
	}
	return Updates{Mode: c.Updates, Most: c.UpdatesPerStep, UntilChecklist: c.DeferUpdates}
}
