package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

// A run continues as new between two steps, with its waiting callers, their
// messages and the numbers on record.
func TestPipeline_ContinuesAsNewBetweenSteps(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Call("write_file", map[string]string{"path": "draft.md", "content": "a frog"}), stagetest.Call("call_step", map[string]string{"step_name": "lint"})},
		"agent_b": nil,
	})
	s.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == acts.StepActivity {
			s.SetContinueAsNewSuggested(true)
		}
	})
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	var continued *workflow.ContinueAsNewError
	require.ErrorAs(t, s.GetWorkflowError(), &continued)
	var in pipelineflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(continued.Input, &in))
	require.Equal(t, in.Continued.Core.Events, in.Continued.Recorded, "all is on record")
	require.Equal(t, 1, in.Continued.Traced)

	next := stagetest.NewOn(t, s.Store, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}}, nil)
	next.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	next.SetContinuedExecutionRunID("default-test-run-id")
	var resumed []llm.Message
	next.Cast["agent_a"].Saw = func(_ int, req llm.Request) { resumed = req.Messages }
	result := runPipeline(t, next, in)
	require.Equal(t, "main/call_pending lint/completed main/completed export/completed", traceOf(result))
	require.Equal(t, "[Called step completed with result: a frog]", resumed[len(resumed)-1].Content)
	status, err := artifact.ReadJSON[acts.State](t.Context(), s.Store, "pipelines/p1/status.json")
	require.NoError(t, err)
	require.Equal(t, result.Trace, status.Trace)
}

// A run whose time is over continues as new without time.
func TestPipeline_ContinuesWithoutTimeLeft(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Call("call_step", map[string]string{"step_name": "lint"})}, "agent_b": nil})
	s.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		s.SetContinueAsNewSuggested(info.ActivityType.Name == acts.StepActivity)
	})
	limited := strings.Replace(writing, `"start"`, `"limits":{"seconds":60},"start"`, 1)
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(limited)})
	var continued *workflow.ContinueAsNewError
	require.ErrorAs(t, s.GetWorkflowError(), &continued)
	var in pipelineflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(continued.Input, &in))
	require.Positive(t, *in.Continued.SecondsLeft)

	*in.Continued.SecondsLeft = 0
	next := stagetest.NewOn(t, s.Store, map[string][]any{"agent_a": {stagetest.Never()}, "agent_b": nil}, nil)
	next.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	next.SetContinuedExecutionRunID("default-test-run-id")
	result := runPipeline(t, next, in)
	require.Equal(t, pipeline.TimeOver, result.Error.Type)
	require.Contains(t, result.Error.Message, "the run's time of 60 s is over")
}

// A run that was cut off between continue-as-new and its first record forgets nothing that
// was paid for.
func TestPipeline_ReopenedBeforeTheFirstRecord(t *testing.T) {
	t.Parallel()
	first := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": nil})
	first.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		first.SetContinueAsNewSuggested(info.ActivityType.Name == acts.StepActivity)
	})
	first.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	var continued *workflow.ContinueAsNewError
	require.ErrorAs(t, first.GetWorkflowError(), &continued)
	var in pipelineflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(continued.Input, &in))
	const run = "default-test-run-id" // of all workflows that the environment runs
	saved := artifact.InPipeline("p1").SavedState(run)
	state, err := first.Store.Get(t.Context(), saved)
	require.NoError(t, err)

	var second *stagetest.Stage
	var cut *artifact.Dir
	second = nextPipeline(t, first.Store, map[string][]any{"agent_a": nil, "agent_b": {
		stagetest.Call("list_files", nil), stagetest.Block{Reached: func() { cut = stagetest.CopyOf(t, first.Store); second.CancelWorkflow() }},
	}})
	second.SetContinuedExecutionRunID(run)
	second.ExecuteWorkflow(pipelineflow.Type, in)
	move(t, cut, run+"-l2", "later-run-l2")
	require.NoError(t, cut.Put(t.Context(), saved, bytes.NewReader(state)))

	third := nextPipeline(t, cut, map[string][]any{"agent_a": nil, "agent_b": {stagetest.Text("exported")}})
	result := runPipeline(t, third, pipelineflow.Input{Resume: true})
	require.Equal(t, "main/completed export/completed", traceOf(result))
	require.EqualValues(t, 3, result.Usage.ModelCalls)
	require.Equal(t, 1, third.Cast["agent_b"].Asked)
}

// move gives a step another execution token.
func move(t *testing.T, store *artifact.Dir, token, other string) {
	t.Helper()
	for key, err := range store.List(t.Context(), "pipelines/") {
		require.NoError(t, err)
		data, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		if strings.Contains(key, token) {
			require.NoError(t, store.Delete(t.Context(), key))
		}
		moved := bytes.ReplaceAll(data, []byte(token), []byte(other))
		require.NoError(t, store.Put(t.Context(), strings.ReplaceAll(key, token, other), bytes.NewReader(moved)))
	}
}

// A record has new entries only, so its size does not grow with the run.
func TestPipeline_RecordsHaveOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	const calls = 45
	replies := []any{stagetest.Call("write_file", map[string]string{"path": "draft.md", "content": "a frog"})}
	for range calls {
		replies = append(replies, stagetest.Call("call_step", map[string]string{"step_name": "lint"}))
	}
	s := newPipeline(t, map[string][]any{"agent_a": append(replies, stagetest.Text("done")), "agent_b": {stagetest.Text("exported")}})
	largest := map[string]int{}
	s.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		var input json.RawMessage
		require.NoError(t, args.Get(&input))
		largest[info.ActivityType.Name] = max(largest[info.ActivityType.Name], len(input))
	})
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, pipeline.Completed, result.Status)
	require.Equal(t, 2*calls+1, result.Transitions)
	require.Less(t, largest["RecordPipeline"], 8<<10)
	require.Less(t, largest[acts.StepActivity], 8<<10)
	status, err := artifact.ReadJSON[acts.State](t.Context(), s.Store, "pipelines/p1/status.json")
	require.NoError(t, err)
	require.Len(t, status.Trace, 2*calls+2)
}

// A message sent before a team is asked is part of the question.
func TestPipeline_ATeamIsToldWhatWasSaid(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, stagetest.Seed())
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "Use tabs."}) }, 0)
	result := runPipeline(t, s, pipelineflow.Input{
		Request: "Who?", ID: "p2", Config: json.RawMessage(`{"start":"decide","steps":[{"name":"decide","kind":"session"}]}`),
	})
	require.Equal(t, pipeline.Completed, result.Status)
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), s.Store, "sessions/p2-decide-l1/session.json")
	require.NoError(t, err)
	require.Equal(t, "Who?\n\nA person who watches this run says:\n\nUse tabs.", session.Query)
}
