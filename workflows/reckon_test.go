package workflows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	scenarioflow "conclave/workflows/scenario"
)

// limited is a rate limit that a step waits out between two attempts.
var limited = &llm.Error{Kind: llm.RateLimited, Message: "slow down", RetryAfter: time.Hour}

// beforeLimit are three paid replies, and the rate limit.
func beforeLimit(after ...any) []any {
	look := call("list_files", nil)
	return append([]any{call("write_file", map[string]string{"path": "draft.md", "content": "a frog"}), look, look, limited}, after...)
}

// A step that is suspended while it waits for its next attempt counts, once, and resumes
// from its journal.
func TestPipeline_SuspendedBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": beforeLimit(text("written")), "agent_b": {text("exported")}})
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(drive.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() {
		var state acts.State
		value, err := s.QueryWorkflow(drive.StateQuery)
		require.NoError(t, err)
		require.NoError(t, value.Get(&state))
		require.EqualValues(t, 3, state.Usage.ModelCalls)
		s.SignalWorkflow(drive.ResumeSignal, nil)
	}, 2*time.Minute)
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, "main/completed export/completed", traceOf(result))
	require.EqualValues(t, 5, result.Usage.ModelCalls)
}

// The step that the end of a pipeline cut short counts, and is on record.
func TestPipeline_CancelledBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": beforeLimit(), "agent_b": nil})
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Error(t, s.GetWorkflowError())
	result, err := artifact.ReadJSON[acts.Result](t.Context(), s.store, "pipelines/p1/result.json")
	require.NoError(t, err)
	require.EqualValues(t, 3, result.Usage.ModelCalls)
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.store, "pipelines/p1/steps/001-main/last_action.json")
	require.NoError(t, err)
	require.Equal(t, "agent_a", last.AgentID)
	require.Equal(t, result.Usage, last.Cost)
}

func TestScenario_SuspendedBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newScenario(t, beforeLimit(ends("pass"))...)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(drive.PauseSignal, nil) }, time.Minute)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(drive.ResumeSignal, nil) }, 2*time.Minute)
	result := runScenario(t, s, journey("r1", 1))
	require.Equal(t, "pass pass", statuses(result))
	require.EqualValues(t, 4, result.Cost.ModelCalls)
	require.Equal(t, result.Cost, result.Steps[0].Cost)
}

func TestScenario_CancelledBetweenAttempts(t *testing.T) {
	t.Parallel()
	s := newScenario(t, beforeLimit()...)
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Minute)
	s.ExecuteWorkflow(scenarioflow.Type, journey("r1", 2))
	require.Error(t, s.GetWorkflowError())
	result := s.result(t, "r1")
	require.Equal(t, "cancelled cancelled skipped", statuses(result))
	require.EqualValues(t, 3, result.Cost.ModelCalls)
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), s.store, "scenarios/buy/runs/r1/step-01/last_action.json")
	require.NoError(t, err)
	require.Equal(t, result.Cost, last.Cost)
}
