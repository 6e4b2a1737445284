package pipeline_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

// A step that is suspended while it waits for its next attempt counts, once, and resumes
// from its journal.
func TestPipeline_SuspendedBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": stagetest.BeforeLimit(stagetest.Text("written")), "agent_b": {stagetest.Text("exported")}})
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() {
		var state acts.State
		value, err := s.QueryWorkflow(workflows.StateQuery)
		require.NoError(t, err)
		require.NoError(t, value.Get(&state))
		require.EqualValues(t, 3, state.Usage.ModelCalls)
		s.SignalWorkflow(workflows.ResumeSignal, nil)
	}, 2*time.Minute)
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, "main/completed export/completed", traceOf(result))
	require.EqualValues(t, 5, result.Usage.ModelCalls)
}

// The step that the end of a pipeline cut short counts, and is on record.
func TestPipeline_CancelledBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": stagetest.BeforeLimit(), "agent_b": nil})
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Error(t, s.GetWorkflowError())
	result, err := artifact.ReadJSON[acts.Result](t.Context(), s.Store, "pipelines/p1/result.json")
	require.NoError(t, err)
	require.EqualValues(t, 3, result.Usage.ModelCalls)
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.Store, "pipelines/p1/steps/001-main/last_action.json")
	require.NoError(t, err)
	require.Equal(t, "agent_a", last.AgentID)
	require.Equal(t, result.Usage, last.Cost)
}

// A step that a pause ends between two attempts reports this, and resumes with the start of the
// outage that it waited for.
func TestPipeline_PausedInAnOutage(t *testing.T) {
	t.Parallel()
	began := time.Now().UTC().Add(-time.Minute).Round(0) // less than the longest outage
	away := &llm.Error{Kind: llm.Overloaded, Status: 503, Message: "busy", Since: began, RetryAfter: time.Hour}
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.WriteFile("half of it"), away, stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
	var launches []pipeline.Launch
	s.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		var in acts.StepInput
		if info.ActivityType.Name == acts.StepActivity && args.Get(&in) == nil {
			launches = append(launches, in.Launch)
		}
	})
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.ResumeSignal, nil) }, 2*time.Minute)
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, "main/completed export/completed", traceOf(result))
	require.Zero(t, launches[0].AwaySince)
	require.Equal(t, began, launches[1].AwaySince)
	require.Zero(t, launches[2].AwaySince, "another step")
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.Store, "pipelines/p1/steps/001-main/last_action.json")
	require.NoError(t, err)
	require.NotNil(t, last.PartialPath)
	require.Equal(t, activities.Suspended, last.Error.Type)
}
