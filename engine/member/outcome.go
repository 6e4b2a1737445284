package member

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

// MaxReason bounds a reason or a summary in what leaves the step, in bytes. The
// whole of it is in the step's files.
const MaxReason = 280

// Outcome is a commit in the terms of coordination.
type Outcome struct {
	Action      coordination.Action
	Target      string
	TargetLabel string
	Reason      string // of a vote or a restart, cut at MaxReason
	Status      coordination.StopStatus
	Summary     string // of a stop, cut at MaxReason
	Seen        []coordination.Seen
	Heard       int // number of the last human message that was told
}

// ReadOutcome translates a commit.
func ReadOutcome(c artifact.Commit) (Outcome, error) {
	o := Outcome{Action: coordination.Action(c.Kind), Seen: seen(c.SeenSteps), Heard: c.Heard}
	switch o.Action {
	case coordination.NewAnswer, coordination.Submit:
	case coordination.Vote:
		v, err := payload[Vote](c)
		if err != nil {
			return Outcome{}, err
		}
		o.Target, o.TargetLabel, o.Reason = v.Target, v.TargetLabel, text.Truncate(v.Reason, MaxReason)
	case coordination.Stop:
		s, err := payload[Stop](c)
		if err != nil {
			return Outcome{}, err
		}
		o.Status, o.Summary = s.Status, text.Truncate(s.Summary, MaxReason)
	case coordination.RestartTeam:
		a, err := payload[Again](c)
		if err != nil {
			return Outcome{}, err
		}
		o.Reason = text.Truncate(a.Reason, MaxReason)
	default:
		return Outcome{}, fmt.Errorf("a committed action of the unknown kind %q", c.Kind)
	}
	return o, nil
}

// payload reads what was committed.
func payload[T any](c artifact.Commit) (T, error) {
	var p T
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return p, fmt.Errorf("reading a committed %s: %w", c.Kind, err)
	}
	return p, nil
}

func seen(steps map[string]int) []coordination.Seen {
	var list []coordination.Seen
	for agent, number := range steps {
		list = append(list, coordination.Seen{Agent: agent, Step: number})
	}
	slices.SortFunc(list, func(a, b coordination.Seen) int { return strings.Compare(a.Agent, b.Agent) })
	return list
}
