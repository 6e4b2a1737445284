package coordination

// Drain decides what follows from the events stepped since the last one:
// records in ledger order, a ring, cancels, and then either launches, or the
// end, or nothing because steps are still running or the session is held. What
// it returns is not returned again.
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
		return append(commands, s.end(*next.decision)...)
	}
	commands = append(commands, s.ring(s.directive())...)
	if s.Paused {
		commands = append(commands, s.cancel(true)...)
	}
	return append(commands, s.share(next.launches)...)
}

// end ends the session. The runs it cancels stay known, so that their usage
// still counts when they report.
func (s *State) end(d Decision) []Command {
	s.Outcome = &d
	s.Forced, s.Finale, s.Paused = "", nil, false
	s.note(Entry{Kind: EntryDecided, Agent: d.Winner, Step: d.WinnerStep, Label: d.WinnerLabel, Text: d.text()})
	commands := s.ring(s.directive())
	commands = append(commands, s.cancel(false)...)
	return append(commands, Done{Decision: s.Decision()})
}

// cancel ends the running steps that were not cancelled yet.
func (s *State) cancel(suspend bool) []Command {
	var commands []Command
	for i := range s.Agents {
		if run := s.Agents[i].Run; run != nil && !run.Cancelled {
			run.Cancelled = true
			commands = append(commands, Cancel{ID: run.Launch.ID, Suspend: suspend})
		}
	}
	return commands
}

func (c Cause) text() string {
	switch c {
	case CauseSplit:
		return "the votes are split"
	case CauseAgentFailed:
		return "an agent failed"
	case CauseNoAnswer:
	}
	return "nobody has an answer"
}

func (d Decision) text() string {
	if d.Winner == "" {
		return string(d.Status) + ": " + d.Cause.text()
	}
	return string(d.Status) + ": " + d.Winner + " (" + d.WinnerLabel + ")"
}
