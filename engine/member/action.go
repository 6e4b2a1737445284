package member

import (
	"encoding/json"
	"fmt"

	"conclave/engine/coordination"
	"conclave/engine/loop"
	"conclave/engine/step"
	"conclave/engine/team"
)

// Answer is the committed payload of a new_answer.
type Answer struct {
	Answer string `json:"answer"`
	Label  string `json:"label"`
}

// Vote is the committed payload of a vote, by agent ID.
type Vote struct {
	Target      string `json:"target"`
	TargetLabel string `json:"target_label"`
	Reason      string `json:"reason"`
}

// Stop is the committed payload of a stop.
type Stop struct {
	Status  coordination.StopStatus `json:"status"`
	Summary string                  `json:"summary"`
}

// Again is the committed payload of a restart_orchestration.
type Again struct {
	Reason       string `json:"reason"`
	Instructions string `json:"instructions"`
}

// seal translates an accepted action from anonymous numbers to agent IDs. The
// payloads of stop, submit and restart_orchestration name nobody.
func (o *opened) seal(a loop.Action) (step.Sealed, error) {
	switch coordination.Action(a.Kind) {
	case coordination.NewAnswer:
		var answer team.NewAnswer
		if err := json.Unmarshal(a.Payload, &answer); err != nil {
			return step.Sealed{}, err
		}
		payload, err := json.Marshal(Answer{Answer: answer.Content, Label: o.nextLabel()})
		return step.Sealed{Payload: payload, Workspace: true, Otherwise: o.inherited()}, err
	case coordination.Vote:
		var vote team.Vote
		if err := json.Unmarshal(a.Payload, &vote); err != nil {
			return step.Sealed{}, err
		}
		target, ok := o.id(vote.Number)
		if seen, _ := o.witnessed(); !ok || seen[target] == 0 {
			return step.Sealed{}, fmt.Errorf("a vote for agent%d, whose answer was not shown", vote.Number)
		}
		payload, err := json.Marshal(Vote{Target: target, TargetLabel: vote.Label, Reason: vote.Reason})
		return step.Sealed{Payload: payload}, err
	case coordination.Stop, coordination.Submit, coordination.RestartTeam:
		return step.Sealed{Payload: a.Payload}, nil
	default:
		return step.Sealed{}, fmt.Errorf("a team member cannot end a step with %q", a.Kind)
	}
}

// inherited is the manifest of the files that a presented answer has if its
// presenter leaves none: those of the winning answer. Where the work is divided,
// or nothing was decided by votes, there is no such answer.
func (o *opened) inherited() string {
	l := o.Launch
	if l.Purpose != coordination.Present || l.Brief == nil || o.Settings.Subtasks != nil {
		return ""
	}
	for _, shown := range l.Shown {
		for _, peer := range o.peers {
			if shown.Label == l.Brief.Label && peer.Number == shown.Number {
				return peer.Manifest
			}
		}
	}
	return ""
}

// nextLabel is the label that a new answer of this step bears: one revision
// above the agent's last one, which is not shown if it is of an earlier attempt
// of the team; or, of a presenter, agent<N>.final.
func (m Step) nextLabel() string {
	if m.Launch.Purpose == coordination.Present {
		return fmt.Sprintf("agent%d.final", m.Launch.Number)
	}
	return fmt.Sprintf("agent%d.%d", m.Launch.Number, max(m.Launch.Answers, m.revision())+1)
}

// revision is that of the own answer shown, 0 without one.
func (m Step) revision() int {
	n := 0
	for _, shown := range m.Launch.Shown {
		if shown.Number == m.Launch.Number {
			_, _ = fmt.Sscanf(shown.Label, "agent%d.%d", new(int), &n)
		}
	}
	return n
}
