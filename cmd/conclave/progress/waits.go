package progress

import (
	"fmt"
	"time"

	"conclave/engine/coordination"
)

// Waits returns a line for every minute in which a session waits for a model that does not reply,
// with the key that shortens the wait.
func (l *Log) Waits(s Snapshot) []string {
	var lines []string
	minutes := map[string]int{}
	for _, agent := range s.State.Agents {
		a, since := s.waitedFor(agent)
		if since.IsZero() {
			continue
		}
		minutes[agent.ID] = int(s.Now.Sub(since) / time.Minute)
		if minutes[agent.ID] <= l.minutes[agent.ID] {
			continue
		}
		what := "outage for " + brief(s.Now.Sub(since)) + ": " + Line(a.What)
		if a.Away.IsZero() && a.Silent {
			what = Line(a.What) + " for " + brief(s.Now.Sub(since)) + ", without a byte of a reply"
		}
		lines = append(lines, fmt.Sprintf("waiting for %s: %s; %s shortens this", Line(agent.ID), what, s.shortenedBy(agent, a)))
	}
	l.minutes = minutes
	return lines
}

// waitedFor returns the activity of an agent whose model is waited for, and since when. The time is
// zero if there is none, or if the others go on without the agent. A call without a byte counts only
// if no other agent works.
func (s Snapshot) waitedFor(agent coordination.AgentView) (a Activity, since time.Time) {
	all := s.activities(agent)
	switch {
	case len(all) == 0 || isAway(agent):
		return a, since
	case !all[0].Away.IsZero():
		return all[0], all[0].Away
	case all[0].Kind == coordination.ModelAway:
		return all[0], all[0].Since
	case !all[0].Silent:
		return a, since
	}
	for _, other := range s.Activities {
		if other.Agent != agent.ID && !other.Silent && other.Away.IsZero() {
			return a, since
		}
	}
	return all[0], all[0].Since
}

// isAway reports whether the others go on without an agent whose step still runs.
func isAway(agent coordination.AgentView) bool {
	return agent.Running && agent.Doing != nil && agent.Doing.Kind == coordination.ModelAway
}

// shortenedBy returns the key that shortens the wait for an agent's model.
func (s Snapshot) shortenedBy(agent coordination.AgentView, a Activity) string {
	answered, members := 0, 0
	for _, other := range s.State.Agents {
		if !other.Absent {
			members++
		}
		if other.ID != agent.ID && other.LatestLabel != "" && other.Error == nil {
			answered++
		}
	}
	switch {
	case !agent.Running:
		return "timeout_settings.orchestrator_timeout_seconds"
	case 2*answered > members:
		return "timeout_settings.away_seconds"
	case a.Away.IsZero() && a.Silent:
		return "silent_timeout_seconds of its backend"
	}
	return "timeout_settings.outage_seconds"
}
