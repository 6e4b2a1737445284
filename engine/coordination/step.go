package coordination

import "conclave/engine/llm"

// Step takes one event. It never fails: an event that is stale or impossible
// is noted in the timeline and changes nothing else. Events that happened
// together are stepped one after the other and drained once.
func (s *State) Step(event Event) {
	switch e := event.(type) {
	case Answered:
		if a, run := s.ended(e.Launch, e.Usage); run != nil {
			s.answered(a, e)
		}
	case Voted:
		if a, run := s.ended(e.Launch, e.Usage); run != nil {
			s.voted(a, run, e)
		}
	case Failed:
		if a, run := s.ended(e.Launch, e.Usage); run != nil {
			s.failed(a, e)
		}
	case Stopped:
		if a, run := s.ended(e.Launch, e.Usage); run != nil {
			a.Steps-- // it had no chance to act
			s.note(Entry{Kind: EntryStopped, Agent: a.ID, Text: a.ID + " was stopped"})
		}
	case TimeUp:
		s.force(Timeout, "time is up")
	case Finish:
		s.force(Finished, "a decision now was asked for")
	default:
		s.note(Entry{Kind: EntryIgnored, Text: "unknown event ignored"})
	}
}

// ended closes the run that an event names and accounts for it. It is the one
// door that stale events are stopped at: the run is nil for those.
func (s *State) ended(launch LaunchID, usage llm.Usage) (*Agent, *Run) {
	for i := range s.Agents {
		a := &s.Agents[i]
		if a.Run == nil || a.Run.Launch != launch {
			continue
		}
		run := a.Run
		a.Run = nil
		a.Usage = a.Usage.Add(usage)
		if s.Done() { // it was cancelled; what it cost was spent all the same
			s.note(Entry{Kind: EntryIgnored, Agent: a.ID, Text: a.ID + " ended after the decision; only its usage counts"})
			return nil, nil
		}
		a.Steps++
		return a, run
	}
	s.note(Entry{Kind: EntryIgnored, Text: "event of launch " + quoted(string(launch)) + " ignored: it is not running"})
	return nil, nil
}

func (s *State) answered(a *Agent, e Answered) {
	if e.Step <= a.Step {
		s.refuse(a, e.Step, "answer not accepted: step number already used")
		return
	}
	seen := s.witnessed(e.Seen)
	a.Step = e.Step
	a.Ballot = nil
	fresh := s.freshVoters()
	a.Answers = append(a.Answers, e.Step)
	label := a.latestLabel()
	a.Newest = s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: label, Seen: seen})
	s.note(Entry{Kind: EntryAnswer, Agent: a.ID, Step: e.Step, Label: label, Text: a.ID + " answered " + label + outdated(fresh)})
}

func (s *State) voted(a *Agent, run *Run, e Voted) {
	target := s.agent(e.Target)
	switch {
	case e.Step <= a.Step:
		s.refuse(a, e.Step, "vote not accepted: step number already used")
		return
	case !run.MayVote:
		s.refuse(a, e.Step, "vote not accepted: it was not offered")
		return
	case target == nil || !target.answered():
		s.refuse(a, e.Step, "vote not accepted: "+quoted(e.Target)+" has no answer")
		return
	}
	seen := s.witnessed(e.Seen)
	label := revision(target, e.TargetLabel, seen)
	a.Step = e.Step
	a.Ballot = &Ballot{Target: target.ID, TargetLabel: label, Step: e.Step, Reason: cut(e.Reason), Seen: seen}
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Vote, Target: target.ID, TargetLabel: label, Seen: seen})
	text := a.ID + " voted for " + target.ID + " (" + label + ")"
	if s.stale(a.Ballot) {
		text += ", stale already"
	}
	s.note(Entry{
		Kind: EntryVote, Agent: a.ID, Step: e.Step, Target: target.ID, Label: label, Reason: cut(e.Reason), Text: text,
	})
}

func (s *State) failed(a *Agent, e Failed) {
	a.Step = max(a.Step, e.Step)
	a.Error = &Failure{Type: cut(e.Cause.Type), Message: cut(e.Cause.Message)}
	a.Ballot = nil
	s.note(Entry{Kind: EntryFailed, Agent: a.ID, Step: e.Step, Reason: a.Error.Message, Text: a.ID + " failed: " + a.Error.Type})
}

// refuse ends a step without an action: the agent stays what it was, one step
// nearer to its limit.
func (s *State) refuse(a *Agent, step int, why string) {
	a.Step = max(a.Step, step)
	s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: a.ID + ": " + why})
}

// force asks for a decision in the next Drain; the first to ask names it.
func (s *State) force(status Status, why string) {
	if s.Done() || s.Forced != "" {
		s.note(Entry{Kind: EntryIgnored, Text: why + "; ignored, a decision was already taken or asked for"})
		return
	}
	s.Forced = status
	s.note(Entry{Kind: EntryAsked, Text: why})
}

// accept puts an action on the ledger and returns its number.
func (s *State) accept(entry Accepted) int {
	s.Accepted++
	entry.Seq = s.Accepted
	s.Pending = append(s.Pending, entry)
	return entry.Seq
}
