package scenario_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	acts "conclave/activities/scenario"
	"conclave/engine/llm"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
	"conclave/workflows/stagetest"
)

// "result.json is … always completed, on cancel …"
func TestScenario_Cancel(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = newScenario(t, ends("pass"), records("before", "stdout", "x"), stagetest.Block{Reached: func() { s.CancelWorkflow() }})
	s.ExecuteWorkflow(scenarioflow.Type, journey("r1", 4))
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &cancelled)
	result := resultOf(t, s, "r1")
	require.Equal(t, "cancelled pass cancelled skipped skipped", statuses(result))
	require.NotNil(t, result.CompletedAt)
	require.Equal(t, "02", *result.FailedStep)
	require.Equal(t, []string{"step-02/evidence/before.txt"}, result.Steps[1].EvidencePaths)
	var told acts.Result
	require.True(t, workflows.CanceledResult(cancelled, &told))
	require.Equal(t, result.Status, told.Status)
	require.Equal(t, result.Cost, told.Cost)
}

// A run that is cancelled during its preparation is completed, too.
func TestScenario_CancelAtOnce(t *testing.T) {
	t.Parallel()
	s := newScenario(t, stagetest.Never())
	s.RegisterDelayedCallback(s.CancelWorkflow, 0)
	s.ExecuteWorkflow(scenarioflow.Type, journey("r1", 2))
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &cancelled)
	require.Equal(t, "cancelled cancelled skipped", statuses(resultOf(t, s, "r1")))
}

func TestScenario_PauseAndResume(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	pauses := stagetest.Block{Reached: func() { s.SignalWorkflow(workflows.PauseSignal, nil) }}
	s = newScenario(t, stagetest.Call("list_files", nil), pauses, ends("pass"), ends("pass"))
	s.RegisterDelayedCallback(func() {
		value, err := s.QueryWorkflow(workflows.StateQuery)
		require.NoError(t, err)
		var state acts.State
		require.NoError(t, value.Get(&state))
		require.True(t, state.Paused)
		require.Len(t, state.Plan, 2)
		s.SignalWorkflow(workflows.SaySignal, map[string]any{"txet": "Look left."})
		s.SignalWorkflow(workflows.ResumeSignal, nil)
	}, time.Minute)
	var went llm.Request
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 3 {
			went = req
		}
	}
	began := s.Now()
	result := runScenario(t, s, journey("r1", 2))
	require.Equal(t, "pass pass pass", statuses(result))
	require.Len(t, went.Messages, 4, "it resumes its conversation")
	value, err := s.QueryWorkflow(workflows.TimelineQuery)
	require.NoError(t, err)
	var events []acts.Event
	require.NoError(t, value.Get(&events))
	var kinds []string
	at := map[string]time.Time{}
	for _, e := range events {
		kinds = append(kinds, e.Kind)
		at[e.Kind] = e.Time
	}
	pause := at["resumed"].Sub(at["paused"])
	require.LessOrEqual(t, result.DurationMS, (at["ended"].Sub(began) - pause).Milliseconds(), "the pause does not count")
	require.GreaterOrEqual(t, result.DurationMS, (at["ended"].Sub(at["started"]) - pause).Milliseconds())
	require.Equal(t, "started step_started paused suspended ignored resumed step_started step_ended step_started step_ended ended", strings.Join(kinds, " "))
	lines, err := s.Store.Get(t.Context(), "scenarios/buy/runs/r1/events.jsonl")
	require.NoError(t, err)
	require.Equal(t, len(events), strings.Count(string(lines), "\n"))
}

// A run that is paused before its first step launches nothing; a senseless request is
// refused with a reason.
func TestScenario_Updates(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ends("pass"))
	ask := func(name string, answered func(any, error)) {
		s.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{OnReject: func(err error) { answered(nil, err) }, OnComplete: answered, OnAccept: func() {}})
	}
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, 0)
	answers := 0
	s.RegisterDelayedCallback(func() {
		require.Zero(t, s.Cast["agent_a"].Asked)
		value, err := s.QueryWorkflow("__temporal_workflow_metadata")
		require.NoError(t, err)
		var metadata sdkpb.WorkflowMetadata
		require.NoError(t, value.Get(&metadata))
		require.Contains(t, metadata.GetCurrentDetails(), "**running** · buy · run 1")
		require.Contains(t, metadata.GetCurrentDetails(), "| 01 | Step 1 | – |  | 0 |")
		ask(workflows.PauseSignal, func(_ any, err error) { answers++; require.ErrorContains(t, err, "paused already") })
		ask(workflows.ResumeSignal, func(state any, err error) {
			answers++
			require.NoError(t, err)
			require.False(t, state.(acts.State).Paused)
		})
	}, time.Minute)
	require.Equal(t, "pass pass", statuses(runScenario(t, s, journey("r1", 1))))
	require.Equal(t, 2, answers)
}

// A step's activity that is completed by hand has no verdict in the store.
func TestScenario_CompletedByHand(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	s.OnActivity("RunScenarioStep", mock.Anything, mock.Anything).
		Return(acts.StepResult{Token: "x", Status: scenario.Pass}, nil)
	result := runScenario(t, s, journey("r1", 1))
	require.Equal(t, "fail error", statuses(result))
	require.Contains(t, *result.Error, "CompletedByHand")
}
