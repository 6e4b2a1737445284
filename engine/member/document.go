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

// Stopped is stop.json.
type Stopped struct {
	AgentID   string                  `json:"agent_id"`
	Summary   string                  `json:"summary"`
	Status    coordination.StopStatus `json:"status"`
	SeenSteps map[string]int          `json:"seen_steps"`
	Timestamp time.Time               `json:"timestamp"`
}

// project lists the documents of a commit: answer.json, vote.json or stop.json,
// and last_action.json. The judgement of a final answer leaves none: it is no
// action of the agent as a member of the team.
func (m Step) project(store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	last := artifact.LastAction{
		AgentID:         m.Launch.Agent,
		Action:          c.Kind,
		Timestamp:       c.Timestamp,
		StepNumber:      number,
		DurationSeconds: c.Timestamp.Sub(c.StartedAt).Seconds(),
		Cost:            c.Usage,
	}
	var document step.Document
	var err error
	switch coordination.Action(c.Kind) {
	case coordination.NewAnswer:
		document, err = m.answered(store, number, c, &last)
	case coordination.Vote:
		document, err = m.voted(number, c, &last)
	case coordination.Stop:
		document, err = m.stopped(number, c)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []step.Document{document, m.lastAction(last)}, nil
}

func (m Step) answered(store artifact.Store, number int, c artifact.Commit, last *artifact.LastAction) (step.Document, error) {
	a, err := payload[Answer](c)
	if err != nil {
		return step.Document{}, err
	}
	last.AnswerText = &a.Answer
	if c.Manifest != "" {
		path := store.URL(m.dir(number) + "workspace")
		last.WorkspacePath = &path
	}
	return step.Document{
		Key:  m.dir(number) + "answer.json",
		Body: artifact.Answer{AgentID: m.Launch.Agent, Answer: a.Answer, Timestamp: c.Timestamp, Label: a.Label},
	}, nil
}

func (m Step) voted(number int, c artifact.Commit, last *artifact.LastAction) (step.Document, error) {
	v, err := payload[Vote](c)
	if err != nil {
		return step.Document{}, err
	}
	last.VoteTarget, last.VoteReason = &v.Target, &v.Reason
	return step.Document{
		Key: m.dir(number) + "vote.json",
		Body: artifact.Vote{
			Voter: m.Launch.Agent, Target: v.Target, Reason: v.Reason, SeenSteps: c.SeenSteps,
			Timestamp: c.Timestamp, TargetLabel: v.TargetLabel,
		},
	}, nil
}

func (m Step) stopped(number int, c artifact.Commit) (step.Document, error) {
	s, err := payload[Stop](c)
	if err != nil {
		return step.Document{}, err
	}
	return step.Document{
		Key: m.dir(number) + "stop.json",
		Body: Stopped{
			AgentID: m.Launch.Agent, Summary: s.Summary, Status: s.Status, SeenSteps: c.SeenSteps, Timestamp: c.Timestamp,
		},
	}, nil
}

// abandoned is the last_action.json of a step that came to nothing, so that no
// caller mistakes an older action for this step's.
func (m Step) abandoned(r step.Result, cause artifact.Error, at time.Time) []step.Document {
	if m.Launch.Purpose == coordination.Evaluate {
		return nil
	}
	last := artifact.LastAction{
		AgentID: m.Launch.Agent, Action: NoAction, Timestamp: at,
		StepNumber: r.Step, Cost: r.Usage, Error: &cause,
	}
	if !r.StartedAt.IsZero() {
		// The claim may be of a worker whose clock was ahead.
		last.DurationSeconds = max(0, at.Sub(r.StartedAt).Seconds())
	}
	return []step.Document{m.lastAction(last)}
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
