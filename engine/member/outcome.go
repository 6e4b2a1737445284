package member

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/excerpt"
)

// MaxReason bounds a vote's reason in what leaves the step, in bytes. The whole
// of it is in vote.json.
const MaxReason = 280

// Outcome is a commit in the terms of coordination.
type Outcome struct {
	Action      coordination.Action
	Target      string
	TargetLabel string
	Reason      string // cut at MaxReason
	Seen        []coordination.Seen
}

// ReadOutcome translates a commit.
func ReadOutcome(c artifact.Commit) (Outcome, error) {
	o := Outcome{Action: coordination.Action(c.Kind), Seen: seen(c.SeenSteps)}
	switch o.Action {
	case coordination.NewAnswer:
	case coordination.Vote:
		var v Vote
		if err := json.Unmarshal(c.Payload, &v); err != nil {
			return Outcome{}, fmt.Errorf("reading a committed vote: %w", err)
		}
		o.Target, o.TargetLabel, o.Reason = v.Target, v.TargetLabel, excerpt.Marked(v.Reason, MaxReason)
	default:
		return Outcome{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return o, nil
}

func seen(steps map[string]int) []coordination.Seen {
	var list []coordination.Seen
	for agent, number := range steps {
		list = append(list, coordination.Seen{Agent: agent, Step: number})
	}
	slices.SortFunc(list, func(a, b coordination.Seen) int { return strings.Compare(a.Agent, b.Agent) })
	return list
}
