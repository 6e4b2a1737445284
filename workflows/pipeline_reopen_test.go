package workflows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	acts "conclave/activities/pipeline"
	"conclave/engine/artifact"
	"conclave/engine/pipeline"
	pipelineflow "conclave/workflows/pipeline"
)

// nextPipeline is a stage for another run on the store of a pipeline.
func nextPipeline(t *testing.T, store *artifact.Dir, scripts map[string][]any) *stage {
	t.Helper()
	s := newStageOn(t, store, scripts, nil)
	s.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	return s
}

// A failed step is run again in a new run, from its journal; the steps before it are kept.
func TestPipeline_ReopenedAfterFailure(t *testing.T) {
	t.Parallel()
	first := newPipeline(t, map[string][]any{"agent_a": {text("written")}, "agent_b": {call("list_files", nil), refusedKey}})
	in := pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)}
	result := runPipeline(t, first, in)
	require.Equal(t, "main/completed export/error", traceOf(result))

	next := nextPipeline(t, first.store, map[string][]any{"agent_a": nil, "agent_b": {text("exported")}})
	result = runPipeline(t, next, pipelineflow.Input{Resume: true, ID: "p1"})
	require.Equal(t, "main/completed export/error export/completed", traceOf(result))
	require.Equal(t, "exported", result.Final)
	require.EqualValues(t, 3, result.Usage.ModelCalls)
	require.Equal(t, 0, next.cast["agent_a"].asked)
	require.Equal(t, 1, next.cast["agent_b"].asked)
	for key, err := range first.store.List(t.Context(), artifact.InPipeline("p1").File("journal/")) {
		require.NoError(t, err)
		require.Fail(t, "a journal is left", key)
	}

	a := acts.Activities{Process: attempt.Process{Store: first.store}}
	err := a.CanReopen(t.Context(), acts.ReopenInput{Run: "p1", WorkflowID: "default-test-workflow-id"})
	require.ErrorContains(t, err, "run p1 cannot go on: the run has ended, completed; its result stands")
	require.ErrorContains(t, a.CanReopen(t.Context(), acts.ReopenInput{Run: "p2"}), "there is no run p2 to go on with")
}

func TestPipeline_ReopenedAfterCancellation(t *testing.T) {
	t.Parallel()
	first := newPipeline(t, map[string][]any{"agent_a": {call("list_files", nil), never()}, "agent_b": nil})
	first.RegisterDelayedCallback(first.CancelWorkflow, time.Second)
	first.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, first.GetWorkflowError(), &cancelled)

	next := nextPipeline(t, first.store, map[string][]any{"agent_a": {text("written")}, "agent_b": {text("exported")}})
	result := runPipeline(t, next, pipelineflow.Input{Resume: true, ID: "p1"})
	require.Equal(t, pipeline.Completed, result.Status)
	require.Equal(t, "main/cancelled main/completed export/completed", traceOf(result))
	require.EqualValues(t, 3, result.Usage.ModelCalls)
}
