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

// seal translates an accepted action from anonymous numbers to agent IDs.
func (m Step) seal(a loop.Action) (step.Sealed, error) {
	var payload any
	switch coordination.Action(a.Kind) {
	case coordination.NewAnswer:
		var answer team.NewAnswer
		if err := json.Unmarshal(a.Payload, &answer); err != nil {
			return step.Sealed{}, err
		}
		payload = Answer{Answer: answer.Content, Label: m.nextLabel()}
	case coordination.Vote:
		var vote team.Vote
		if err := json.Unmarshal(a.Payload, &vote); err != nil {
			return step.Sealed{}, err
		}
		shown, ok := m.shown(vote.Number)
		if !ok {
			return step.Sealed{}, fmt.Errorf("a vote for agent%d, which has no answer here", vote.Number)
		}
		payload = Vote{Target: shown.Agent, TargetLabel: shown.Label, Reason: vote.Reason}
	default:
		return step.Sealed{}, fmt.Errorf("a team member cannot end a step with %q", a.Kind)
	}
	data, err := json.Marshal(payload)
	return step.Sealed{Payload: data, Workspace: coordination.Action(a.Kind) == coordination.NewAnswer}, err
}

func (m Step) shown(number int) (coordination.Shown, bool) {
	for _, s := range m.Launch.Shown {
		if s.Number == number {
			return s, true
		}
	}
	return coordination.Shown{}, false
}

// nextLabel is the label that a new answer of this step bears: one revision
// above the own answer it was shown.
func (m Step) nextLabel() string {
	revision := 0
	if own, ok := m.shown(m.Launch.Number); ok {
		_, _ = fmt.Sscanf(own.Label, "agent%d.%d", new(int), &revision)
	}
	return fmt.Sprintf("agent%d.%d", m.Launch.Number, revision+1)
}
