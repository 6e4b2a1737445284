package pipeline

import (
	"context"

	"conclave/activities/attempt"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
)

// ReckonInput is a step that ended without a report. Its launch has only the fields that identify
// the step.
type ReckonInput struct {
	Run    string          `json:"run"`
	Launch pipeline.Launch `json:"launch"`
	attempt.Ended
}

// ReckonPipelineStep returns the number and the usage of a step according to the store.
func (a *Activities) ReckonPipelineStep(ctx context.Context, in ReckonInput) (attempt.Failure, error) {
	layout, err := a.layout(ctx, in.Run)
	if err != nil {
		return attempt.Failure{}, err
	}
	spec, err := pipelineagent.Step{Layout: layout, Launch: in.Launch, Token: in.Token}.Place(ctx, a.Store)
	if err != nil {
		return attempt.Failure{}, err
	}
	return a.Reckon(ctx, spec, in.Ended)
}
