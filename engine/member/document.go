package member

import (
	"encoding/json"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// NoAction is the action of last_action.json after a step that was given up.
const NoAction = "none"

// project lists the documents of a commit: answer.json or vote.json, and
// last_action.json.
func (m Step) project(store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	agent := m.Launch.Agent
	last := artifact.LastAction{
		AgentID:         agent,
		Action:          c.Kind,
		Timestamp:       c.Timestamp,
		StepNumber:      number,
		DurationSeconds: c.Timestamp.Sub(c.StartedAt).Seconds(),
		Cost:            c.Usage,
	}
	var document step.Document
	switch coordination.Action(c.Kind) {
	case coordination.NewAnswer:
		var a Answer
		if err := json.Unmarshal(c.Payload, &a); err != nil {
			return nil, err
		}
		document = step.Document{
			Key:  m.dir(number) + "answer.json",
			Body: artifact.Answer{AgentID: agent, Answer: a.Answer, Timestamp: c.Timestamp, Label: a.Label},
		}
		last.AnswerText = &a.Answer
		if c.Manifest != "" {
			path := store.URL(m.dir(number) + "workspace")
			last.WorkspacePath = &path
		}
	case coordination.Vote:
		var v Vote
		if err := json.Unmarshal(c.Payload, &v); err != nil {
			return nil, err
		}
		document = step.Document{
			Key: m.dir(number) + "vote.json",
			Body: artifact.Vote{
				Voter: agent, Target: v.Target, Reason: v.Reason, SeenSteps: c.SeenSteps,
				Timestamp: c.Timestamp, TargetLabel: v.TargetLabel,
			},
		}
		last.VoteTarget, last.VoteReason = &v.Target, &v.Reason
	}
	return []step.Document{document, m.lastAction(last)}, nil
}

// abandoned is the last_action.json of a step that came to nothing, so that no
// caller mistakes an older action for this step's.
func (m Step) abandoned(r step.Result, cause artifact.Error, at time.Time) []step.Document {
	return []step.Document{m.lastAction(artifact.LastAction{
		AgentID: m.Launch.Agent, Action: NoAction, Timestamp: at,
		StepNumber: r.Step, Cost: r.Usage, Error: &cause,
	})}
}

// lastAction is last_action.json, which only goes forward: a step that is
// projected late does not hide a later one, and a late failure does not hide
// what another attempt of the step has committed.
func (m Step) lastAction(last artifact.LastAction) step.Document {
	return step.Document{
		Key: m.Layout.Agent(m.Launch.Agent, "last_action.json"), Body: last, Replace: true,
		Newer: func(existing []byte) bool {
			var there artifact.LastAction
			if json.Unmarshal(existing, &there) != nil {
				return false
			}
			if there.StepNumber == last.StepNumber {
				return last.Action == NoAction && there.Action != NoAction
			}
			// A step that never got a number comes after those it was launched after.
			return there.StepNumber > max(last.StepNumber, m.Launch.After)
		},
	}
}
