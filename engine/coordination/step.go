package coordination

import "conclave/engine/llm"

// Step takes one event. It never fails: an event that is stale or impossible
// is noted in the timeline and changes nothing else. Events that happened
// together are stepped one after the other and drained once.
func (s *State) Step(event Event) {
	switch e := event.(type) {
	case Answered, Voted, Stopped, Failed, Suspended, Restarted, Exhausted, Evaluated:
		s.stepEnd(e.(ending))
	case Pause, Resume, Finish, Retry, Said:
		s.stepRequest(e.(request))
	case TimeShort:
		s.timeShort()
	case TimeUp:
		s.force(Timeout, "time is up")
	default:
		s.note(Entry{Kind: EntryIgnored, Text: "unknown event ignored"})
	}
}

// stepEnd takes the end of a step.
func (s *State) stepEnd(event ending) {
	launch, _, usage := event.ends()
	a, run := s.ended(launch, usage)
	if run == nil {
		return
	}
	if e, ok := event.(Suspended); ok {
		s.suspended(a, run, e)
		return
	}
	if run.Purpose != Coordinate {
		s.finaleEnd(a, run, event)
		return
	}
	a.Steps++
	a.Ran = true
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
	case Evaluated:
		s.refuse(a, e.Step, "it was not asked to judge")
	}
}

// ended closes the run that an event names and accounts for it. It is the one
// door that stale events are stopped at: the launch is nil for those.
func (s *State) ended(launch LaunchID, usage llm.Usage) (*Agent, *Launch) {
	for i := range s.Agents {
		a := &s.Agents[i]
		if a.Run == nil || a.Run.Launch.ID != launch {
			continue
		}
		run := a.Run.Launch
		a.Run = nil
		a.Usage = a.Usage.Add(usage)
		if s.Done() { // it was cancelled; what it cost was spent all the same
			s.note(Entry{Kind: EntryIgnored, Agent: a.ID, Text: a.ID + " ended after the decision; only its usage counts"})
			return nil, nil
		}
		return a, &run
	}
	s.note(Entry{Kind: EntryIgnored, Text: "event of launch " + quoted(string(launch)) + " ignored: it is not running"})
	return nil, nil
}

// suspended keeps a step that was ended from outside: the agent goes on with it
// as soon as it may. Protocol 1 launches a new one with the next wave.
func (s *State) suspended(a *Agent, run *Launch, e Suspended) {
	a.Step = max(a.Step, e.Step)
	if s.Protocol >= 2 {
		a.Rest = &Rest{Launch: *run, Token: e.Token}
	}
	s.note(Entry{Kind: EntrySuspended, Agent: a.ID, Step: e.Step, Text: a.ID + " was stopped in the middle of a step"})
}

func (s *State) failed(a *Agent, run *Launch, e Failed) {
	a.Step = max(a.Step, e.Step)
	a.Error = &Failure{Type: cut(e.Cause.Type), Message: cut(e.Cause.Message)}
	a.Ballot, a.Halt = nil, nil
	if s.Protocol >= 2 {
		a.Rest = &Rest{Launch: *run, Token: e.Token}
	}
	s.note(Entry{Kind: EntryFailed, Agent: a.ID, Step: e.Step, Reason: a.Error.Message, Text: a.ID + " failed: " + a.Error.Type})
}

// restarted launches the agent again if there was something new to see. Every
// restart takes an answer that was not there at the step's launch, so that they
// are bounded by the answers.
func (s *State) restarted(a *Agent, run *Launch, e Restarted) {
	if !s.outdates(run) {
		s.refuse(a, e.Step, "it began again without anything new to see")
		return
	}
	a.Step = max(a.Step, e.Step)
	a.Steps--
	a.Again = true
	s.note(Entry{Kind: EntryRestarted, Agent: a.ID, Step: e.Step, Text: a.ID + " begins again with what is new"})
}

// refuse ends a step without an action: the agent stays what it was, one step
// nearer to its limit.
func (s *State) refuse(a *Agent, step int, why string) {
	a.Step = max(a.Step, step)
	s.note(Entry{Kind: EntryRefused, Agent: a.ID, Step: step, Text: a.ID + ": " + why})
}

func (s *State) timeShort() {
	if s.Done() || s.Short {
		s.note(Entry{Kind: EntryIgnored, Text: "time is short; known already"})
		return
	}
	s.Short = true
	s.note(Entry{Kind: EntryAsked, Text: "time is short: running steps are asked to finish"})
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

// accept puts an entry on the ledger and returns its number.
func (s *State) accept(entry Accepted) int {
	s.Accepted++
	entry.Seq = s.Accepted
	if s.attempt() > 1 {
		entry.Attempt = s.attempt()
	}
	s.Pending = append(s.Pending, entry)
	return entry.Seq
}
