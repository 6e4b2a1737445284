package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	pipelineacts "conclave/activities/pipeline"
	acts "conclave/activities/session"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

const deciding = `{"start":"decide","steps":[{"name":"decide","kind":"session"}]}`

// The usage of a step's team counts, even if the run is cancelled before the team has
// decided.
func TestPipeline_ACancelledTeamHasSpent(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Block{Reached: func() { s.CancelWorkflow() }}},
		"agent_b": {stagetest.Answer("B."), stagetest.Never()},
	})
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)})
	var ended *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &ended)
	result, err := artifact.ReadJSON[pipelineacts.Result](t.Context(), s.Store, "pipelines/p1/result.json")
	require.NoError(t, err)
	require.Equal(t, "decide/cancelled", traceOf(result))
	team, err := artifact.ReadJSON[acts.State](t.Context(), s.Store, "sessions/p1-decide-l1/status.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, team.Cost.ModelCalls, int64(2))
	require.Equal(t, team.Cost, result.Usage)
	require.Equal(t, team.Cost, result.Trace[0].Usage)
	status, err := artifact.ReadJSON[pipelineacts.State](t.Context(), s.Store, "pipelines/p1/status.json")
	require.NoError(t, err)
	require.Equal(t, team.Cost, status.Usage)
}

// A team's session that a person cancels is not repeated: the step fails.
func TestPipeline_ATeamThatIsCancelledItself(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Block{Reached: func() { s.CancelWorkflowByID("p1-decide-l1", "") }}},
		"agent_b": {stagetest.Answer("B."), stagetest.Never()},
	})
	result := runPipeline(t, s, pipelineflow.Input{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)})
	require.Equal(t, pipeline.Failed, result.Status)
	require.Equal(t, "decide/error", traceOf(result))
	require.Equal(t, &artifact.Error{Type: activities.Cancelled, Message: "the session p1-decide-l1 was cancelled"}, result.Error)
	require.GreaterOrEqual(t, result.Usage.ModelCalls, int64(2), "its usage counts")
	there, err := s.Store.Exists(t.Context(), "sessions/p1-decide-l2/session.json")
	require.NoError(t, err)
	require.False(t, there)
}

// The usage of a team counts, even if its decision cannot be stored.
func TestPipeline_ADecisionThatIsLost(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, stagetest.Seed())
	s.SetOnChildWorkflowCompletedListener(func(*workflow.Info, converter.EncodedValue, error) {
		for key, err := range s.Store.List(t.Context(), "sessions/p1-decide-l1/final/") {
			require.NoError(t, err)
			require.NoError(t, s.Store.Delete(t.Context(), key))
		}
	})
	result := runPipeline(t, s, pipelineflow.Input{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)})
	require.Equal(t, "decide/error", traceOf(result))
	require.Contains(t, result.Error.Message, "read the decision of step decide's team")
	require.Equal(t, int64(9), result.Usage.ModelCalls)
}

// A run that is cancelled before its first step starts none.
func TestPipeline_CancelledBeforeItBegins(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, stagetest.Seed())
	s.RegisterDelayedCallback(s.CancelWorkflow, 0)
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	var ended *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &ended)
	require.Zero(t, s.Cast["agent_a"].Asked)
}

// An unreadable question fails its step, not the workflow.
func TestPipeline_AStepThatCannotBePutTogether(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Call("call_step", map[string]string{"step_name": "export"})},
		"agent_b": {stagetest.Text("exported")},
	})
	s.Cast["agent_b"].Saw = func(int, llm.Request) {
		kept, err := artifact.ReadJSON[artifact.Commit](t.Context(), s.Store, "pipelines/p1/steps/001-main/action.json")
		require.NoError(t, err)
		var called struct{ Messages string }
		require.NoError(t, json.Unmarshal(kept.Payload, &called))
		require.NoError(t, s.Store.Put(t.Context(), "pipelines/p1/blobs/sha256/"+called.Messages, strings.NewReader("{}")))
	}
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, pipeline.Failed, result.Status)
	require.Equal(t, "main/call_pending export/completed main/error", traceOf(result))
	require.Contains(t, result.Error.Message, "read the conversation of the caller")
	require.Equal(t, 1, s.Cast["agent_a"].Asked, "the caller continues with its own messages or ends")
}
