package coordination_test

import (
	"strings"

	c "conclave/engine/coordination"
	"conclave/engine/llm"
)

// randomBatch is what might reach a session at one moment.
func (s *session) randomBatch() []c.Event {
	events := make([]c.Event, 0, 4)
	for range 1 + s.pick(4) {
		events = append(events, s.randomEvent())
	}
	return events
}

// randomEvent is mostly the honest end of a running step.
func (s *session) randomEvent() c.Event {
	switch s.pick(32) {
	case 1:
		return c.Finish{}
	case 2:
		return c.TimeUp{}
	case 3:
		return nil
	case 4, 5:
		return s.end(s.randomLaunch(), s.randomAgent())
	default:
		ids := s.runningIDs()
		if len(ids) == 0 {
			return s.end("l1", s.randomAgent())
		}
		return s.end(ids[s.pick(len(ids))], s.randomAgent())
	}
}

// end is how the launch's step might end.
func (s *session) end(id c.LaunchID, target string) c.Event {
	launch := s.launches[id]
	used := llm.Usage{InputTokens: int64(s.pick(9)), ModelCalls: 1}
	step := launch.After + 1
	if s.pick(12) == 1 {
		step = s.pick(9) - 1
	}
	choice := s.pick(16)
	if len(launch.Shown) == 0 && choice > 3 {
		choice = 0 // in the first wave mostly answers
	}
	switch choice {
	case 0, 1:
		return c.Answered{Launch: id, Step: step, Seen: s.randomSeen(id), Usage: used}
	case 2:
		return c.Failed{Launch: id, Step: step, Cause: c.Failure{Type: "network", Message: s.randomText()}, Usage: used}
	default:
		return c.Voted{
			Launch: id, Step: step, Target: target, TargetLabel: s.randomLabel(),
			Reason: s.randomText(), Seen: s.randomSeen(id), Usage: used,
		}
	}
}

// endSomeStep ends one running step, failing now and then.
func (s *session) endSomeStep() []c.Event {
	ids := s.runningIDs()
	return []c.Event{s.end(ids[s.pick(len(ids))], s.randomAgent())}
}

func (s *session) runningIDs() []c.LaunchID {
	var ids []c.LaunchID
	for _, agent := range s.config.Agents {
		if id, found := s.running[agent]; found {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *session) randomLaunch() c.LaunchID {
	return []c.LaunchID{"l1", "l2", "l3", "l5", "l8", "", "l0", "\xff"}[s.pick(8)]
}

func (s *session) randomAgent() string {
	choice := s.pick(8 * (len(s.config.Agents) + 1))
	if choice >= 8*len(s.config.Agents) {
		return []string{"", "nobody\xfe"}[choice%2]
	}
	return s.config.Agents[choice/8]
}

// randomSeen is mostly what the step was shown.
func (s *session) randomSeen(id c.LaunchID) []c.Seen {
	seen := s.sees(id)
	if s.pick(6) == 1 {
		for range s.pick(4) {
			seen = append(seen, c.Seen{Agent: s.randomAgent(), Step: s.pick(12) - 2})
		}
	}
	if len(seen) > 0 && s.pick(8) == 1 {
		seen = seen[1:]
	}
	return seen
}

func (s *session) randomLabel() string {
	return []string{"", "agent1", "agent1.1", "agent2.1", "agent2.2", "agent3.1", "agent0.-1"}[s.pick(7)]
}

func (s *session) randomText() string {
	return []string{"", "because", strings.Repeat("ü", 281), "\xff\xc3"}[s.pick(4)]
}
