package coordination

import (
	"slices"
	"strings"
)

// Step applies one event. It never fails: a stale or impossible event is noted in the
// timeline and changes nothing else. Step all events that happened together before
// Drain.
func (s *State) Step(event Event) {
	switch e := event.(type) {
	case Answered, Voted, Stopped, Failed, Suspended, Awaiting, Restarted, Exhausted, Evaluated, Critiqued:
		s.stepEnd(e.(ending))
	case Pause, Resume, Finish, Retry, Said, ToolResults:
		s.stepRequest(e.(request))
	case TimeShort:
		s.timeShort()
	case Waited:
		s.waited()
	case Checked:
		s.checked(e)
	case CallerGone:
		s.callerGone()
	case CancelRequested:
		s.cancelRequested()
	case Reopened:
		s.reopen(e)
	case Drafted:
		s.drafted(e)
	case ModelReport:
		s.reported(e)
	case TimeUp:
		s.force(Timeout, "time is up")
	default:
		s.ignore("unknown event ignored")
	}
}

// stepEnd handles the end of a step.
func (s *State) stepEnd(event ending) {
	a, run := s.ended(event)
	if run == nil {
		return
	}
	if run.Purpose == Evaluation {
		s.critiqueEnd(a, run, event)
		return
	}
	if e, ok := event.(Awaiting); ok {
		s.await(a, run, e)
		return
	}
	if e, ok := event.(Suspended); ok {
		s.suspended(a, run, e)
		return
	}
	if failed, ok := event.(Failed); !ok || failed.Outage == NoOutage {
		s.Waits = 0
	}
	if run.Purpose != Coordinate {
		s.finaleEnd(a, run, event)
		return
	}
	a.Steps++
	a.Ran = true
	heard := a.Heard
	a.Known, a.Heard = run.seen(), max(a.Heard, run.heard())
	switch e := event.(type) {
	case Answered:
		s.answered(a, run, e)
	case Voted:
		s.voted(a, run, e)
	case Stopped:
		s.stopped(a, run, e)
	case Failed:
		s.failed(a, run, e)
	case Restarted:
		s.restarted(a, run, e)
	case Exhausted:
		s.refuse(a, e.Step, "its allowance was spent before it acted")
		s.leave(a, e.Token)
	case Evaluated, Critiqued:
		s.refuse(a, e.end().Step, "it was not asked to judge")
	}
	if a.Again || a.Error != nil { // the step is launched again with the same messages
		a.Heard = heard
	}
}

// ended ends the run that an event names and counts its usage. The launch is nil if the event
// is stale.
func (s *State) ended(event ending) (*agent, *Launch) {
	e := event.end()
	i := slices.IndexFunc(s.Agents, func(a *agent) bool { return a.Run != nil && a.Run.Launch.ID == e.Launch })
	if i < 0 {
		s.ignore("event of launch " + quoted(string(e.Launch)) + " ignored: it is not running")
		return nil, nil
	}
	a := s.Agents[i]
	run := a.Run.Launch
	a.Run = nil
	a.Usage = a.Usage.Add(e.Usage)
	s.LongestCall = max(s.LongestCall, e.LongestCall)
	s.noteInjected(a, &run, event)
	if s.Done() { // the end of a cancelled step
		s.keepRest(a, run, event)
		s.note(Entry{Kind: EntryIgnored, Agent: a.ID, Text: a.ID + " ended after the " + s.Outcome.noun() + "; only its usage counts"})
		return nil, nil
	}
	if s.cutting(&run) {
		if run.Purpose != Evaluation { // the number of an evaluation is not the agent's
			a.Step = max(a.Step, e.Step)
		}
		s.note(Entry{Kind: EntryIgnored, Agent: a.ID, Step: e.Step, Text: a.ID + " ended after the decision of the others; only its usage counts"})
		return nil, nil
	}
	return a, &run
}

// suspended keeps the step so that its agent can resume it.
func (s *State) suspended(a *agent, run *Launch, e Suspended) {
	a.Step = max(a.Step, e.Step)
	a.Rest = s.rest(run, e.End, e.Token)
	s.note(Entry{Kind: EntrySuspended, Agent: a.ID, Step: e.Step, Text: a.ID + " was suspended"})
}

func (s *State) failed(a *agent, run *Launch, e Failed) {
	a.Step = max(a.Step, e.Step)
	a.Error = &Failure{Type: truncate(e.Cause.Type), Message: truncate(e.Cause.Message)}
	a.Ballot, a.Halt = nil, nil
	a.Rest = s.rest(run, e.End, e.Token)
	if run.Purpose == Coordinate || e.Outage == Interrupted {
		a.Away = e.Outage
	}
	s.note(Entry{Kind: EntryFailed, Agent: a.ID, Step: e.Step, Reason: a.Error.Message, Text: a.ID + " failed: " + a.Error.Type})
}

// restarted launches the agent again if there is news. Every restart needs an answer newer
// than the step's launch, so the number of answers bounds the restarts.
func (s *State) restarted(a *agent, run *Launch, e Restarted) {
	if !s.isOutdated(run) {
		s.refuse(a, e.Step, "it restarted without news")
		return
	}
	a.Step = max(a.Step, e.Step)
	a.Steps--
	a.Again = true
	s.leave(a, e.Token)
	s.note(Entry{Kind: EntryRestarted, Agent: a.ID, Step: e.Step, Text: a.ID + " restarts with the news"})
}

// refuse ends a step without an action. Its agent keeps its status, and the step counts
// towards its limit.
func (s *State) refuse(a *agent, step int, why string) {
	a.Step = max(a.Step, step)
	s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: a.ID + ": " + why})
}

func (s *State) timeShort() {
	if s.Done() || s.Short {
		s.ignore("time is short; ignored, it was reported before")
		return
	}
	s.Short = true
	s.note(Entry{Kind: entryAsked, Text: "time is short: running steps are asked to finish"})
}

// force makes the next Drain decide. The first status given names the decision.
func (s *State) force(status Status, why string) {
	if s.Done() || s.Forced != "" {
		s.ignore(why + "; ignored, a decision was already taken or asked for")
		return
	}
	s.Forced = status
	s.note(Entry{Kind: entryAsked, Text: why})
}

// cancelRequested makes the next Drain end the session, before any requested decision.
func (s *State) cancelRequested() {
	if s.Done() || s.Forced == Cancelled {
		s.ignore("cancel ignored: the session is over")
		return
	}
	s.Forced = Cancelled
}

// ignore notes an event that changes nothing.
func (s *State) ignore(text string) { s.note(Entry{Kind: EntryIgnored, Text: text}) }

// accept puts an entry into the ledger and returns its number.
func (s *State) accept(entry Accepted) int {
	s.Accepted++
	entry.Seq = s.Accepted
	if s.attempt() > 1 {
		entry.Attempt = s.attempt()
	}
	s.Pending = append(s.Pending, entry)
	return entry.Seq
}

// admits reports whether a step may end with the action under its number. If not, it ends the
// step without an action.
func (s *State) admits(a *agent, run *Launch, action Action, step int) bool {
	what := string(action)
	if action == NewAnswer {
		what = "answer"
	}
	switch {
	case step <= a.Step:
		s.refuse(a, step, what+" not accepted: step number already used")
		return false
	case !run.may(action):
		s.refuse(a, step, what+" not accepted: it was not offered")
		return false
	}
	return true
}

// answered accepts a new answer, which withdraws the agent's own vote or stop.
func (s *State) answered(a *agent, run *Launch, e Answered) {
	if !s.admits(a, run, NewAnswer, e.Step) {
		return
	}
	seen := s.noteSeen(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	a.Ballot, a.Halt = nil, nil
	fresh := s.agents(s.fresh)
	a.Answers = append(a.Answers, e.Step)
	a.Streak++
	s.keepDigest(a, e.Digest, seen)
	s.keepChecks(a, e.Checks, seen)
	label := a.latestLabel()
	a.Newest = s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: label, Seen: seen})
	s.note(Entry{Kind: EntryAnswer, Agent: a.ID, Step: e.Step, Label: label, Text: a.ID + " answered " + label + outdated(fresh)})
}

// voted accepts a vote, which replaces the agent's earlier one.
func (s *State) voted(a *agent, run *Launch, e Voted) {
	if !s.admits(a, run, Vote, e.Step) {
		return
	}
	target := s.agent(e.Target)
	if !target.answered() {
		s.refuse(a, e.Step, "vote not accepted: "+quoted(e.Target)+" has no answer")
		return
	}
	seen := s.noteSeen(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	s.cast(a, target, e, seen)
	label := a.Ballot.TargetLabel
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Vote, Target: target.ID, TargetLabel: label, Seen: seen})
	s.note(Entry{
		Kind: EntryVote, Agent: a.ID, Step: e.Step, Target: target.ID, Label: label, Reason: a.Ballot.Reason,
		Text: a.ID + " voted for " + target.ID + " (" + label + ")" + s.remark(a, target.latestLabel()),
	})
}

// stopped accepts a stop, which replaces the agent's earlier one.
func (s *State) stopped(a *agent, run *Launch, e Stopped) {
	if !s.admits(a, run, Stop, e.Step) {
		return
	}
	seen := s.noteSeen(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	s.halt(a, e, seen)
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Stop, Status: a.Halt.Status, Seen: seen})
	text := a.ID + " has done its part"
	if a.Halt.Status == Blocked {
		text = a.ID + " is blocked"
	}
	s.note(Entry{Kind: EntryStopped, Agent: a.ID, Step: e.Step, Reason: a.Halt.Summary, Text: text + s.staleness(a)})
}

// cast replaces the agent's vote.
func (s *State) cast(a, target *agent, e Voted, seen []Seen) {
	a.Ballot = &ballot{
		Target: target.ID, TargetLabel: revision(target, e.TargetLabel, seen), Step: e.Step,
		Reason: truncate(e.Reason), Seen: seen, Heard: s.boundHeard(e.Heard), Confidence: probability(e.Confidence),
	}
	s.Cast++
}

// halt replaces the agent's stop.
func (s *State) halt(a *agent, e Stopped, seen []Seen) {
	a.Halt = &halt{Status: Complete, Summary: truncate(e.Summary), Step: e.Step, Seen: seen, Heard: s.boundHeard(e.Heard)}
	if e.Status == Blocked {
		a.Halt.Status = Blocked
	}
}

// staleness returns a remark if the agent's accepted vote or stop was stale from the start.
func (s *State) staleness(a *agent) string {
	if s.fresh(a) {
		return ""
	}
	return ", stale already"
}

// remark returns a note if a new vote is already stale, or counts for a newer answer than the
// one it names.
func (s *State) remark(a *agent, newest string) string {
	if stale := s.staleness(a); stale != "" || a.Ballot.TargetLabel == newest {
		return stale
	}
	return ", which counts for " + newest
}

// noteInjected adds the answers that reached a step while it ran to the timeline, once,
// however the step ended. A resumed step reports those of its predecessor, too.
func (s *State) noteInjected(a *agent, run *Launch, event ending) {
	if run.Purpose != Coordinate {
		return
	}
	before, told := run.seen(), s.boundSeen(shownTo(event))
	var injected []string
	for _, n := range told {
		if n.Agent != a.ID && n.Step > max(seenStep(before, n.Agent), seenStep(a.Noted, n.Agent)) {
			injected = append(injected, revision(s.agent(n.Agent), "", told))
		}
	}
	if len(injected) == 0 {
		return
	}
	a.Noted = told
	labels := strings.Join(injected, " ")
	s.note(Entry{Kind: EntryInjected, Agent: a.ID, Step: event.end().Step, Label: labels, Text: a.ID + " received " + labels + " while it worked"})
}

// shownTo returns the answers that a step had been shown when it ended.
func shownTo(event ending) []Seen {
	switch e := event.(type) {
	case Answered:
		return e.Seen
	case Voted:
		return e.Seen
	case Stopped:
		return e.Seen
	}
	return event.end().Told
}

// noteSeen limits the answers that a step claims to have seen and records them for its agent.
// News that reached the step while it ran ends the agent's streak.
func (s *State) noteSeen(a *agent, run *Launch, seen []Seen, heard int) []Seen {
	kept := s.boundSeen(seen)
	before := run.seen()
	if slices.ContainsFunc(kept, func(n Seen) bool { return n.Agent != a.ID && n.Step > seenStep(before, n.Agent) }) {
		a.Streak = 0
	}
	if s.hasMessages(a, a.Heard, s.boundHeard(heard)) {
		a.Streak = 0
	}
	a.Known, a.Heard = kept, max(a.Heard, s.boundHeard(heard))
	return slices.Clone(kept)
}

// boundHeard limits the number of the last message that a step claims to have received.
func (s *State) boundHeard(claimed int) int { return min(max(claimed, 0), len(s.Messages)) }
