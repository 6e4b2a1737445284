package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	acts "conclave/activities/scenario"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/stagetest"
)

func TestScenario_SuspendedBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newScenario(t, stagetest.BeforeLimit(ends("pass"))...)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.ResumeSignal, nil) }, 2*time.Minute)
	result := runScenario(t, s, journey("r1", 1))
	require.Equal(t, "pass pass", statuses(result))
	require.EqualValues(t, 4, result.Cost.ModelCalls)
	require.Equal(t, result.Cost, result.Steps[0].Cost)
}

// A step paused between two attempts resumes with the start time of the outage that it was
// waiting for.
func TestScenario_PausedInAnOutage(t *testing.T) {
	t.Parallel()
	began := time.Now().UTC().Add(-time.Minute).Round(0) // less than outage_seconds
	away := &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "busy", Since: began, RetryAfter: time.Hour}
	s := newScenario(t, away, ends("pass"))
	var since []time.Time
	s.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		var in acts.StepInput
		if info.ActivityType.Name == "RunScenarioStep" && args.Get(&in) == nil {
			since = append(since, in.Launch.AwaySince)
		}
	})
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.ResumeSignal, nil) }, 2*time.Minute)
	require.Equal(t, "pass pass", statuses(runScenario(t, s, journey("r1", 1))))
	require.Equal(t, []time.Time{{}, began}, since)
}

func TestScenario_CancelledBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newScenario(t, stagetest.BeforeLimit()...)
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.ExecuteWorkflow(scenarioflow.Type, journey("r1", 2))
	require.Error(t, s.GetWorkflowError())
	result := resultOf(t, s, "r1")
	require.Equal(t, "cancelled cancelled skipped", statuses(result))
	require.EqualValues(t, 3, result.Cost.ModelCalls)
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.Store, "scenarios/buy/runs/r1/step-01/last_action.json")
	require.NoError(t, err)
	require.Equal(t, result.Cost, last.Cost)
}
