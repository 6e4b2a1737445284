package session

import (
	"context"

	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// ReckonInput is a step that ended without a report. Its launch has only the fields that identify
// the step.
type ReckonInput struct {
	Session string              `json:"session"`
	Launch  coordination.Launch `json:"launch"`
	attempt.Ended
}

// Reckon returns the number and the usage of a step according to the store.
func (a *Activities) Reckon(ctx context.Context, in ReckonInput) (attempt.Failure, error) {
	layout, err := a.layout(ctx, in.Session)
	if err != nil {
		return attempt.Failure{}, err
	}
	spec := team.Step{Layout: layout, Launch: in.Launch, Token: in.Token}.Place()
	return a.Process.Reckon(ctx, spec, in.Ended)
}
