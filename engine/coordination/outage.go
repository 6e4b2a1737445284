package coordination

import (
	"slices"
	"strconv"
	"strings"
)

// Outage is the outage of a failed step's model server.
type Outage string

// The values of Outage.
const (
	NoOutage    Outage = ""
	Interrupted Outage = "interrupted" // the server has replied in this session
	Unreached   Outage = "unreached"   // the server has never replied in this session
)

// Delays before agents in an outage try again, in seconds.
const (
	waitStep = 60
	maxWait  = 600
)

// lost reports whether an agent has failed for a reason other than an outage.
func (s *State) lost() bool {
	return slices.ContainsFunc(s.Agents, func(a *agent) bool { return a.Error != nil && a.Away == NoOutage })
}

// away returns the number of agents whose outage is one of states.
func (s *State) away(states ...Outage) int {
	n := 0
	for _, a := range s.Agents {
		if slices.Contains(states, a.Away) {
			n++
		}
	}
	return n
}

// stranded reports whether the session is parked because the agents that it needs are in an
// outage and none of their servers has ever replied.
func (s *State) stranded() bool {
	return s.Stranded || s.Finale == nil && s.active() == 0 && s.unreachedOnly()
}

// unreachedOnly reports whether agents are in an outage and none of their servers has ever
// replied.
func (s *State) unreachedOnly() bool { return s.away(Unreached) > 0 && s.away(Interrupted) == 0 }

// missing waits until agents in an outage can make up the minimum, or parks the session if
// none of their servers has ever replied.
func (s *State) missing() move {
	if s.unreachedOnly() {
		s.Stranded = true
		return move{}
	}
	return s.wait()
}

// unreached returns the messages of the agents whose servers have never replied, each
// message once, with the agents that share it.
func (s *State) unreached() string {
	var agents, messages []string
	for _, a := range s.Agents {
		if a.Away == Unreached {
			agents, messages = append(agents, a.ID), append(messages, a.Error.Message)
		}
	}
	return Together(agents, messages, ": ")
}

// Together lists each distinct cause once, after the agents that share it and a separator.
func Together(agents, causes []string, separator string) string {
	var lines []string
	for i, cause := range causes {
		if slices.Contains(causes[:i], cause) {
			continue
		}
		var sharing []string
		for j, other := range causes {
			if other == cause {
				sharing = append(sharing, agents[j])
			}
		}
		lines = append(lines, strings.Join(sharing, ", ")+separator+cause)
	}
	return strings.Join(lines, "; ")
}

// inOutage returns the agents in an outage.
func (s *State) inOutage() []string {
	var agents []string
	for _, a := range s.Agents {
		if a.Away != NoOutage {
			agents = append(agents, a.ID)
		}
	}
	return agents
}

// wait requests the time after which agents in an outage try again, unless a wait is pending.
func (s *State) wait() move {
	if s.Waiting {
		return move{}
	}
	s.Waits++
	s.Waiting = true
	seconds := min(s.Waits*waitStep, maxWait)
	s.note(Entry{Kind: EntryWaiting, Text: "in an outage of their model servers: " + strings.Join(s.inOutage(), ", ") + "; trying again in " + strconv.Itoa(seconds) + " s"})
	return move{wait: &Wait{Seconds: seconds}}
}

// waited handles the end of a wait.
func (s *State) waited() {
	if !s.Waiting {
		s.note(Entry{Kind: EntryIgnored, Text: "the end of a wait ignored: none is out"})
		return
	}
	s.Waiting = false
	if s.Majority != nil {
		s.Majority.Over = true
		return
	}
	s.tryAgain()
}

// tryAgain makes every agent in an outage active again.
func (s *State) tryAgain() {
	for _, a := range s.Agents {
		if a.Away != NoOutage {
			s.revive(a)
		}
	}
}

// revive makes a failed agent active again. Its step will be resumed, and is not counted
// twice.
func (s *State) revive(a *agent) {
	a.Error, a.Away, a.Retried = nil, NoOutage, true
	s.Stranded = false
	if a.Rest != nil && a.Rest.Launch.Purpose == Coordinate {
		a.Steps = max(a.Steps-1, 0)
	}
	s.note(Entry{Kind: EntryRetried, Agent: a.ID, Text: "the failed step of " + a.ID + " is retried"})
}

// rejoin adds the agents in an outage, which try again, to a new wave.
func (s *State) rejoin(wave []Launch) []Launch {
	if len(wave) == 0 {
		return nil
	}
	s.tryAgain()
	return append(wave, s.relaunch(s.resumable())...)
}

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
	if s.Config.Mode == Decomposition || s.Held() || s.Forced != "" || s.Finale != nil || s.checking() || len(s.resumable()) > 0 {
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
