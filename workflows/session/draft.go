package session

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

// draft makes the preparations of the session concurrently. They become part of Prepared, and the
// core counts their cost.
func (s *session) draft() error {
	var made []workflow.Future
	for _, p := range s.prepared.Preparations {
		ctx := drive.Preparing(s.ctx, "have a model make the "+string(p))
		input := acts.DraftInput{Session: s.id, ConfigHash: s.prepared.ConfigHash, Preparation: p}
		made = append(made, workflow.ExecuteActivity(ctx, registered.Draft, input))
	}
	for _, f := range made {
		var d acts.Drafted
		if err := f.Get(s.ctx, &d); err != nil {
			return err
		}
		s.prepared.Drafted = append(s.prepared.Drafted, d)
		s.core.Step(coordination.Drafted{Usage: d.Usage, Text: draftText(d), Reason: d.Fallback})
	}
	return nil
}

// draftText describes a preparation in the timeline.
func draftText(d acts.Drafted) string {
	if d.Fallback != "" {
		return fmt.Sprintf("the model made no %s; built-in ones are used", d.Preparation)
	}
	return fmt.Sprintf("the model made %d %s", len(d.Items), d.Preparation)
}
