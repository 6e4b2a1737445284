package coordination

import "slices"

// SilentCalls is how many times as long as the longest call of a session a call may last without
// a byte of a reply before it counts as an outage of its model.
const SilentCalls = 4

// works reports whether a step of the agent is running that the others wait for.
func (a *agent) works() bool { return a.Run != nil && !a.Run.Away }

// busy reports whether the others wait for a running step.
func (s *State) busy() bool { return slices.ContainsFunc(s.Agents, (*agent).works) }

// reported handles the report of a running step about its model.
func (s *State) reported(e ModelReport) {
	i := slices.IndexFunc(s.Agents, func(a *agent) bool { return a.Run != nil && a.Run.Launch.ID == e.Launch })
	if i < 0 || s.Done() || s.Agents[i].Run.Launch.Purpose.ofFinale() {
		s.ignore("report of launch " + quoted(string(e.Launch)) + " about its model ignored")
		return
	}
	a := s.Agents[i]
	if a.Run.Out = nil; e.Out == nil {
		s.comeBack(a)
		return
	}
	a.Run.Out = &Doing{Kind: ModelAway, Since: e.Out.Since, What: truncate(e.Out.What)}
}

// partFromOutages makes agents away, or ends that, as rule 107 says. It changes nothing while
// another agent has something to do.
func (s *State) partFromOutages() {
	if s.Held() || s.Forced != "" || s.Finale != nil || s.checking() || len(s.resumable()) > 0 {
		return
	}
	out := s.agents(func(a *agent) bool { return a.Run != nil && a.Run.Out != nil })
	others := s.agents(func(a *agent) bool { return a.Error == nil && !a.Absent && !slices.Contains(out, a) })
	if len(out) == 0 || slices.ContainsFunc(others, func(a *agent) bool { return a.Run != nil }) {
		return
	}
	answered := slices.DeleteFunc(others, func(a *agent) bool { return !a.answered() })
	team := len(s.Agents) - len(s.absent())
	enough := 2*len(answered) > team && len(answered) >= s.Config.MinActive && s.Affords()
	for _, a := range out {
		switch {
		case !enough:
			s.comeBack(a)
		case !a.Run.Away:
			a.Run.Away = true
			a.Ballot, a.Halt = nil, nil
			s.note(Entry{Kind: EntryAway, Agent: a.ID, Reason: a.Run.Out.What, Text: a.ID + " is away: the others go on without it until its model is back"})
		}
	}
}

// comeBack ends the absence of an agent whose step goes on.
func (s *State) comeBack(a *agent) {
	if a.Run.Away {
		a.Run.Away = false
		s.note(Entry{Kind: EntryBack, Agent: a.ID, Text: a.ID + " is waited for again"})
	}
}
