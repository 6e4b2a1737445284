package coordination

// Drain decides what follows from the events stepped since the last one:
// records in ledger order, then either the launches of a wave, or cancels and
// the end, or nothing because steps are still running. What it returns is not
// returned again.
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
		return append(commands, s.conclude(*next.decision)...)
	}
	return append(commands, s.launch(next.wave)...)
}

// conclude ends the session. The runs it cancels stay known, so that their
// usage still counts when they report.
func (s *State) conclude(d Decision) []Command {
	s.Outcome = &d
	s.Forced = ""
	s.note(Entry{Kind: EntryDecided, Agent: d.Winner, Step: d.WinnerStep, Label: d.WinnerLabel, Text: d.text()})
	var commands []Command
	for i := range s.Agents {
		if run := s.Agents[i].Run; run != nil {
			commands = append(commands, Cancel{ID: run.Launch})
		}
	}
	return append(commands, Done{Decision: s.Decision()})
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
