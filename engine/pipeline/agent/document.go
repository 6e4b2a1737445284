package agent

import (
	"time"

	"conclave/engine/artifact"
	"conclave/engine/step"
)

// project lists the documents of a commit: answer.json, if the segment has a text,
// and last_action.json, both in its own directory.
func (s Step) project(store artifact.Store, number int, c artifact.Commit) ([]step.Document, error) {
	p, err := payload(c)
	if err != nil {
		return nil, err
	}
	last := artifact.LastAction{
		AgentID: s.player(), Action: c.Kind, Timestamp: c.Timestamp, StepNumber: number,
		DurationSeconds: c.Timestamp.Sub(c.StartedAt).Seconds(), Cost: c.Usage,
	}
	if c.Manifest != "" {
		path := store.URL(s.dir(number) + "workspace")
		last.WorkspacePath = &path
	}
	var documents []step.Document
	if p.Text != "" && c.Kind != KindCall {
		last.AnswerText = &p.Text
		documents = append(documents, step.Document{
			Key:  s.dir(number) + "answer.json",
			Body: artifact.Answer{AgentID: s.player(), Answer: p.Text, Timestamp: c.Timestamp, Label: s.Launch.Step},
		})
	}
	return append(documents, step.Document{Key: s.dir(number) + "last_action.json", Body: last, Replace: true}), nil
}

// player is whose segment it is in the documents: the agent's, or, without one, the
// step's.
func (s Step) player() string {
	if s.Agent == "" {
		return s.Launch.Step
	}
	return s.Agent
}

// abandoned is the last_action.json of a segment that came to nothing.
func (s Step) abandoned(r step.Result, cause artifact.Error, at time.Time) []step.Document {
	if r.Step == 0 {
		return nil
	}
	last := artifact.LastAction{AgentID: s.player(), Action: "none", Timestamp: at, StepNumber: r.Step, Cost: r.Usage, Error: &cause}
	if !r.StartedAt.IsZero() {
		// The claim may be of a worker whose clock was ahead.
		last.DurationSeconds = max(0, at.Sub(r.StartedAt).Seconds())
	}
	return []step.Document{{Key: s.dir(r.Step) + "last_action.json", Body: last, Replace: true}}
}
