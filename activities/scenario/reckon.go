package scenario

import (
	"context"

	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
	scenarioagent "conclave/engine/scenario/agent"
)

// ReckonInput is a step that ended without a report. Its launch has only the fields that identify
// the step.
type ReckonInput struct {
	Scenario string          `json:"scenario"` // the scenario's slug
	Run      string          `json:"run"`
	Launch   scenario.Launch `json:"launch"`
	attempt.Ended
}

// ReckonScenarioStep returns the usage of a step according to the store.
func (a *Activities) ReckonScenarioStep(ctx context.Context, in ReckonInput) (attempt.Failure, error) {
	spec := scenarioagent.Step{Layout: artifact.InScenario(in.Scenario, in.Run), Launch: in.Launch, Token: in.Token}.Place()
	return a.Reckon(ctx, spec, in.Ended)
}
