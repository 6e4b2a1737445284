package coordination

import "slices"

// admits reports whether a step may end with the action under its number. One
// that may not has ended without an action.
func (s *State) admits(a *Agent, run *Launch, action Action, step int) bool {
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

// answered takes a new answer. It withdraws the agent's own vote or stop.
func (s *State) answered(a *Agent, run *Launch, e Answered) {
	if !s.admits(a, run, NewAnswer, e.Step) {
		return
	}
	seen := s.saw(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	a.Ballot, a.Halt = nil, nil
	fresh := s.freshAgents()
	a.Answers = append(a.Answers, e.Step)
	a.Streak++
	label := a.latestLabel()
	a.Newest = s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: NewAnswer, Label: label, Seen: seen})
	s.note(Entry{Kind: EntryAnswer, Agent: a.ID, Step: e.Step, Label: label, Text: a.ID + " answered " + label + outdated(fresh)})
}

// voted takes a vote, which takes the place of the agent's earlier one.
func (s *State) voted(a *Agent, run *Launch, e Voted) {
	if !s.admits(a, run, Vote, e.Step) {
		return
	}
	target := s.agent(e.Target)
	if target == nil || !target.answered() {
		s.refuse(a, e.Step, "vote not accepted: "+quoted(e.Target)+" has no answer")
		return
	}
	seen := s.saw(a, run, e.Seen, e.Heard)
	label := revision(target, e.TargetLabel, seen)
	a.Step = e.Step
	a.Ballot = &Ballot{
		Target: target.ID, TargetLabel: label, Step: e.Step, Reason: cut(e.Reason), Seen: seen, Heard: s.heard(e.Heard),
	}
	s.Cast++
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Vote, Target: target.ID, TargetLabel: label, Seen: seen})
	text := a.ID + " voted for " + target.ID + " (" + label + ")"
	if !s.fresh(a) {
		text += ", stale already"
	}
	s.note(Entry{
		Kind: EntryVote, Agent: a.ID, Step: e.Step, Target: target.ID, Label: label, Reason: cut(e.Reason), Text: text,
	})
}

// stopped takes a stop, which takes the place of the agent's earlier one.
func (s *State) stopped(a *Agent, run *Launch, e Stopped) {
	if !s.admits(a, run, Stop, e.Step) {
		return
	}
	if e.Status != Blocked {
		e.Status = Complete
	}
	seen := s.saw(a, run, e.Seen, e.Heard)
	a.Step = e.Step
	a.Halt = &Halt{Status: e.Status, Summary: cut(e.Summary), Step: e.Step, Seen: seen, Heard: s.heard(e.Heard)}
	s.accept(Accepted{Agent: a.ID, Step: e.Step, Action: Stop, Status: e.Status, Seen: seen})
	text := a.ID + " has done its part"
	if e.Status == Blocked {
		text = a.ID + " is blocked"
	}
	if !s.fresh(a) {
		text += ", stale already"
	}
	s.note(Entry{Kind: EntryStopped, Agent: a.ID, Step: e.Step, Reason: cut(e.Summary), Text: text})
}

// saw settles what a step that acted had been shown, and what the agent knows
// by it: news of its peers, or of people, that reached it in mid-step end a
// streak.
func (s *State) saw(a *Agent, run *Launch, seen []Seen, heard int) []Seen {
	kept := s.witnessed(seen)
	before := run.seen()
	for _, n := range kept {
		if n.Agent != a.ID && n.Step > seenStep(before, n.Agent) {
			a.Streak = 0
		}
	}
	if s.spoken(a, a.Heard, s.heard(heard)) {
		a.Streak = 0
	}
	a.Known, a.Heard = kept, max(a.Heard, s.heard(heard))
	return slices.Clone(kept)
}

// heard bounds what a step claims to have been told.
func (s *State) heard(claimed int) int { return min(max(claimed, 0), len(s.Messages)) }
