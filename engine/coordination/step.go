// Rules 3, 6 to 10, 24, 43 and 91: the ends of steps and their actions.

package coordination

import (
	"cmp"
	"slices"
	"strings"
)

// steps apply the ends of steps.
type steps struct{ waves }

// endRun returns no launch if the event is stale.
func (s *steps) endRun(event ending) (*agent, *Launch) {
	e := event.endOfStep()
	i := slices.IndexFunc(s.Agents, func(a *agent) bool { return a.Run != nil && a.Run.Launch.ID == e.Launch })
	if i < 0 {
		s.ignore("event of launch " + quoteText(string(e.Launch)) + " ignored: it is not running")
		return nil, nil
	}
	a := s.Agents[i]
	run := a.Run.Launch
	a.Run = nil
	a.Usage = a.Usage.Add(e.Usage)
	s.LongestCall = max(s.LongestCall, e.LongestCall)
	s.noteInjected(a, &run, event)
	if s.Done() { // the end of a cancelled step
		s.keepCancelled(a, run, event)
		ended := " ended after the " + s.Outcome.noun()
		if s.Outcome.cutsOff(a.ID) {
			ended = " was " + CutOff
		}
		s.note(Entry{Kind: EntryIgnored, Agent: a.ID, Text: a.ID + ended + "; only its usage counts"})
		return nil, nil
	}
	if s.isCut(&run) {
		if run.Purpose != Evaluation { // the number of an evaluation is not the agent's
			a.Step = max(a.Step, e.Step)
		}
		ended := " ended after the decision of the others"
		if s.Finale.Decision.cutsOff(a.ID) {
			ended = " was " + CutOff
		}
		s.note(Entry{Kind: EntryIgnored, Agent: a.ID, Step: e.Step, Text: a.ID + ended + "; only its usage counts"})
		return nil, nil
	}
	return a, &run
}

func (s *steps) keepCancelled(a *agent, run Launch, event ending) {
	if s.Outcome.Stands() {
		return
	}
	switch e := event.(type) {
	case Suspended:
		a.Rest = newResumable(&run, e.End, e.Token)
	case Failed:
		a.Rest = newResumable(&run, e.End, e.Token)
	default:
		a.Rest = &resumableStep{Launch: run, Late: true}
	}
}

// endStep counts a step and applies its action.
func (s *steps) endStep(a *agent, run *Launch, event ending) {
	a.Steps++
	a.Ran = true
	heard := a.Heard
	a.Known, a.Heard = run.seenAnswers(), max(a.Heard, run.lastMessage())
	switch e := event.(type) {
	case Answered:
		s.takeAnswer(a, run, e)
	case Voted:
		s.takeVote(a, run, e)
	case Stopped:
		s.takeStop(a, run, e)
	case Failed:
		s.failStep(a, run, e)
	case Restarted:
		s.restartStep(a, run, e)
	case Exhausted:
		s.refuseAction(a, e.Step, "its allowance was spent before it acted")
		a.Left = cmp.Or(e.Token, a.Left)
	case Evaluated, Critiqued:
		s.refuseAction(a, e.endOfStep().Step, "it was not asked to judge")
	}
	if a.Again || a.Error != nil { // the step is launched again with the same messages
		a.Heard = heard
	}
}

// admitsAction ends the step without an action if it may not end with this one.
func (s *steps) admitsAction(a *agent, run *Launch, action Action, step int) bool {
	what := string(action)
	if action == NewAnswer {
		what = "answer"
	}
	switch {
	case step <= a.Step:
		s.refuseAction(a, step, what+" not accepted: step number already used")
		return false
	case !run.mayTake(action):
		s.refuseAction(a, step, what+" not accepted: it was not offered")
		return false
	}
	return true
}

func (s *steps) takeAnswer(a *agent, run *Launch, e Answered) {
	if !s.admitsAction(a, run, NewAnswer, e.Step) {
		return
	}
	seen := s.noteSeen(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	a.Ballot, a.Halt = nil, nil
	fresh := s.agentsWhere(s.isFresh)
	a.Answers = append(a.Answers, e.Step)
	a.Streak++
	s.keepDigest(a, e.Digest, seen)
	if a.Verdicts = ""; s.Config.Ballot != ballotText {
		s.addChecks(a, e.Checks, seen)
	}
	label := a.latestLabel()
	a.Newest = s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: label, Seen: seen})
	s.note(Entry{Kind: EntryAnswer, Agent: a.ID, Step: e.Step, Label: label, Text: a.ID + " answered " + label + describeOutdated(fresh)})
}

func (s *steps) takeVote(a *agent, run *Launch, e Voted) {
	if !s.admitsAction(a, run, Vote, e.Step) {
		return
	}
	target := s.agentOf(e.Target)
	if !target.hasAnswer() {
		s.refuseAction(a, e.Step, "vote not accepted: "+quoteText(e.Target)+" has no answer")
		return
	}
	seen := s.noteSeen(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	s.castVote(a, target, e, seen)
	label := a.Ballot.TargetLabel
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Vote, Target: target.ID, TargetLabel: label, Seen: seen})
	s.note(Entry{
		Kind: EntryVote, Agent: a.ID, Step: e.Step, Target: target.ID, Label: label, Reason: a.Ballot.Reason,
		Text: a.ID + " voted for " + target.ID + " (" + label + ")" + s.voteRemark(a, target.latestLabel()),
	})
}

func (s *steps) takeStop(a *agent, run *Launch, e Stopped) {
	if !s.admitsAction(a, run, Stop, e.Step) {
		return
	}
	seen := s.noteSeen(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	s.haltAgent(a, e, seen)
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Stop, Status: a.Halt.Status, Seen: seen})
	text := a.ID + " has done its part"
	if a.Halt.Status == Blocked {
		text = a.ID + " is blocked"
	}
	s.note(Entry{Kind: EntryStopped, Agent: a.ID, Step: e.Step, Reason: a.Halt.Summary, Text: text + s.staleRemark(a)})
}

func (s *steps) castVote(a, target *agent, e Voted, seen []Seen) {
	a.Ballot = &ballot{
		Target: target.ID, TargetLabel: namedRevision(target, e.TargetLabel, seen), Step: e.Step,
		Reason: truncate(e.Reason), Seen: seen, Heard: s.boundHeard(e.Heard), Confidence: validProbability(e.Confidence),
	}
	s.Cast++
}

func (s *steps) haltAgent(a *agent, e Stopped, seen []Seen) {
	a.Halt = &halt{Status: Complete, Summary: truncate(e.Summary), Step: e.Step, Seen: seen, Heard: s.boundHeard(e.Heard)}
	if e.Status == Blocked {
		a.Halt.Status = Blocked
	}
}

func (s *steps) suspendStep(a *agent, run *Launch, e Suspended) {
	a.Step = max(a.Step, e.Step)
	a.Rest = newResumable(run, e.End, e.Token)
	s.note(Entry{Kind: EntrySuspended, Agent: a.ID, Step: e.Step, Text: a.ID + " was suspended"})
}

func (s *steps) failStep(a *agent, run *Launch, e Failed) {
	a.Step = max(a.Step, e.Step)
	a.Error = &Failure{Type: truncate(e.Cause.Type), Message: truncate(e.Cause.Message)}
	a.Ballot, a.Halt = nil, nil
	a.Rest = newResumable(run, e.End, e.Token)
	if run.Purpose == Coordinate || e.Outage == Interrupted {
		a.Away = e.Outage
	}
	s.note(Entry{Kind: EntryFailed, Agent: a.ID, Step: e.Step, Reason: a.Error.Message, Text: a.ID + " failed: " + a.Error.Type})
}

// restartStep launches the agent again if there is news. Every restart needs an answer newer
// than the step's launch, so the number of answers bounds the restarts.
func (s *steps) restartStep(a *agent, run *Launch, e Restarted) {
	if !s.isOutdated(run) {
		s.refuseAction(a, e.Step, "it restarted without news")
		return
	}
	a.Step = max(a.Step, e.Step)
	a.Steps--
	a.Again = true
	a.Left = cmp.Or(e.Token, a.Left)
	s.note(Entry{Kind: EntryRestarted, Agent: a.ID, Step: e.Step, Text: a.ID + " restarts with the news"})
}

// refuseAction ends a step without an action. Its agent keeps its status, and the step counts
// towards its limit.
func (s *steps) refuseAction(a *agent, step int, why string) {
	a.Step = max(a.Step, step)
	s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: a.ID + ": " + why})
}

// noteInjected adds the answers that reached a step while it ran to the timeline, once,
// however the step ended. A resumed step reports those of its predecessor, too.
func (s *steps) noteInjected(a *agent, run *Launch, event ending) {
	if run.Purpose != Coordinate {
		return
	}
	before, told := run.seenAnswers(), s.boundSeen(toldAnswers(event))
	var injected []string
	for _, n := range told {
		if n.Agent != a.ID && n.Step > max(seenStep(before, n.Agent), seenStep(a.Noted, n.Agent)) {
			injected = append(injected, namedRevision(s.agentOf(n.Agent), "", told))
		}
	}
	if len(injected) == 0 {
		return
	}
	a.Noted = told
	labels := strings.Join(injected, " ")
	s.note(Entry{Kind: EntryInjected, Agent: a.ID, Step: event.endOfStep().Step, Label: labels, Text: a.ID + " received " + labels + " while it worked"})
}

// noteSeen limits the answers that a step claims to have seen and records them for its agent.
// News that reached the step while it ran ends the agent's streak.
func (s *steps) noteSeen(a *agent, run *Launch, seen []Seen, heard int) []Seen {
	kept := s.boundSeen(seen)
	before := run.seenAnswers()
	if slices.ContainsFunc(kept, func(n Seen) bool { return n.Agent != a.ID && n.Step > seenStep(before, n.Agent) }) {
		a.Streak = 0
	}
	if s.hasMessages(a, a.Heard, s.boundHeard(heard)) {
		a.Streak = 0
	}
	a.Known, a.Heard = kept, max(a.Heard, s.boundHeard(heard))
	return slices.Clone(kept)
}
