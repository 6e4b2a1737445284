package team

import (
	"encoding/json"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// stopDocument is stop.json.
type stopDocument struct {
	AgentID   string                  `json:"agent_id"`
	Summary   string                  `json:"summary"`
	Status    coordination.StopStatus `json:"status"`
	SeenSteps map[string]int          `json:"seen_steps"`
	Timestamp time.Time               `json:"timestamp"`
}

// documents lists the documents of a commit: answer.json, vote.json or stop.json, and
// last_action.json. The commit of an evaluation has no documents.
func (m Step) documents(store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	last := c.LastAction(m.Launch.Agent, number)
	var document step.Document
	switch coordination.Action(c.Kind) {
	case coordination.NewAnswer:
		a, err := decode[Answer](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		last.AnswerText = &a.Answer
		if c.Manifest != "" {
			path := store.URL(m.dir(number) + "workspace")
			last.WorkspacePath = &path
		}
		document = step.Document{Key: m.dir(number) + "answer.json", Body: artifact.Answer{
			AgentID: m.Launch.Agent, Answer: a.Answer, Timestamp: c.Timestamp, Label: a.Label,
		}}
	case coordination.Vote:
		v, err := decode[sealedVote](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		last.VoteTarget, last.VoteReason = &v.Target, &v.Reason
		document = step.Document{Key: m.dir(number) + "vote.json", Body: artifact.Vote{
			Voter: m.Launch.Agent, Target: v.Target, Reason: v.Reason, SeenSteps: c.SeenSteps,
			Timestamp: c.Timestamp, TargetLabel: v.TargetLabel,
		}}
	case coordination.Stop:
		s, err := decode[stop](c.Kind, c.Payload)
		if err != nil {
			return nil, err
		}
		document = step.Document{Key: m.dir(number) + "stop.json", Body: stopDocument{
			AgentID: m.Launch.Agent, Summary: s.Summary, Status: s.Status, SeenSteps: c.SeenSteps, Timestamp: c.Timestamp,
		}}
	default:
		return nil, nil
	}
	return []step.Document{document, m.lastAction(last)}, nil
}

// abandoned returns the last_action.json of a step without an action, so that no reader
// mistakes an older action for this step's.
func (m Step) abandoned(last artifact.LastAction) []step.Document {
	if m.Launch.Purpose == coordination.Evaluate {
		return nil
	}
	return []step.Document{m.lastAction(last)}
}

// lastAction returns last_action.json. It never replaces that of a later step, and a
// failure does not replace the commit of another attempt.
func (m Step) lastAction(last artifact.LastAction) step.Document {
	return step.Document{
		Key: m.Layout.Agent(m.Launch.Agent, "last_action.json"), Body: last, Replace: true,
		Newer: func(existing []byte) bool {
			var stored artifact.LastAction
			if json.Unmarshal(existing, &stored) != nil {
				return false
			}
			if stored.StepNumber == last.StepNumber {
				return last.Error != nil && stored.Error == nil
			}
			// A step without a number follows the steps before its launch.
			return stored.StepNumber > max(last.StepNumber, m.Launch.After)
		},
	}
}
