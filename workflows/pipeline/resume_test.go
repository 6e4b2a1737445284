package pipeline_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
	acts "conclave/activities/pipeline"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

// nextPipeline is a stage for another run on the store of a pipeline.
func nextPipeline(t *testing.T, store *artifact.Dir, scripts map[string][]any) *stagetest.Stage {
	t.Helper()
	s := stagetest.NewOn(t, store, scripts, nil)
	s.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	return s
}

// A failed step is run again in a new run, from its journal; the steps before it are kept.
func TestPipeline_ReopenedAfterFailure(t *testing.T) {
	t.Parallel()
	first := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Call("list_files", nil), stagetest.RefusedKey}})
	in := pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)}
	result := runPipeline(t, first, in)
	require.Equal(t, "main/completed export/error", traceOf(result))

	next := nextPipeline(t, first.Store, map[string][]any{"agent_a": nil, "agent_b": {stagetest.Text("exported")}})
	result = runPipeline(t, next, pipelineflow.Input{Resume: true}) // the record of the workflow names the run
	require.Equal(t, "p1", result.ID)
	require.Equal(t, "main/completed export/error export/completed", traceOf(result))
	require.Equal(t, "exported", result.Final)
	require.EqualValues(t, 3, result.Usage.ModelCalls)
	require.Equal(t, 0, next.Cast["agent_a"].Asked)
	require.Equal(t, 1, next.Cast["agent_b"].Asked)
	for key, err := range first.Store.List(t.Context(), artifact.InPipeline("p1").File("journal/")) {
		require.NoError(t, err)
		require.Fail(t, "a journal is left", key)
	}

	again := nextPipeline(t, first.Store, map[string][]any{"agent_a": nil, "agent_b": nil})
	require.Equal(t, result, runPipeline(t, again, pipelineflow.Input{Resume: true, ID: "p1"}), "its result stands")

	a := acts.Activities{Process: attempt.Process{Store: first.Store}}
	err := a.CanReopen(t.Context(), acts.ReopenInput{Run: "p1", WorkflowID: "default-test-workflow-id"})
	require.ErrorContains(t, err, "run p1 cannot go on: the run has ended, completed; its result stands")
	require.ErrorContains(t, a.CanReopen(t.Context(), acts.ReopenInput{Run: "p2"}), "there is no run p2 to go on with")
}

func TestPipeline_ReopenedAfterCancellation(t *testing.T) {
	t.Parallel()
	var first *stagetest.Stage
	first = newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Call("list_files", nil), stagetest.Block{Reached: func() { first.CancelWorkflow() }}}, "agent_b": nil,
	})
	first.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, first.GetWorkflowError(), &cancelled)

	next := nextPipeline(t, first.Store, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
	result := runPipeline(t, next, pipelineflow.Input{Resume: true, ID: "p1"})
	require.Equal(t, pipeline.Completed, result.Status)
	require.Equal(t, "main/cancelled main/completed export/completed", traceOf(result))
	require.EqualValues(t, 3, result.Usage.ModelCalls)
}

// A run that was cut off continues from its record, even if the record lacks the last
// steps.
func TestPipeline_ReopenedAfterTermination(t *testing.T) {
	t.Parallel()
	var first *stagetest.Stage
	var cut *artifact.Dir
	first = newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Call("list_files", nil), stagetest.Text("written")},
		"agent_b": {stagetest.Call("list_files", nil), stagetest.Block{Reached: func() { cut = stagetest.CopyOf(t, first.Store); first.CancelWorkflow() }}},
	})
	first.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	bare := stagetest.CopyOf(t, cut)
	for key, err := range bare.List(t.Context(), "pipelines/p1/runs/") {
		require.NoError(t, err)
		require.NoError(t, bare.Delete(t.Context(), key))
	}
	for name, store := range map[string]*artifact.Dir{"from its state": cut, "before its first record": bare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := nextPipeline(t, store, map[string][]any{"agent_a": nil, "agent_b": {stagetest.Text("exported")}})
			result := runPipeline(t, next, pipelineflow.Input{Resume: true, ID: "p1"})
			require.Equal(t, "main/completed export/completed", traceOf(result))
			require.EqualValues(t, 4, result.Usage.ModelCalls, "no reply is paid twice, none is forgotten")
			require.Equal(t, 0, next.Cast["agent_a"].Asked)
			require.Equal(t, 1, next.Cast["agent_b"].Asked)
		})
	}
}

// The team of a failed step continues in its own session.
func TestPipeline_ReopenedTeam(t *testing.T) {
	t.Parallel()
	first := newPipeline(t, map[string][]any{
		"agent_a": {stagetest.WriteFile("1"), stagetest.RefusedKey},
		"agent_b": {stagetest.WriteFile("1"), stagetest.RefusedKey},
	})
	result := runPipeline(t, first, pipelineflow.Input{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)})
	require.Equal(t, "decide/error", traceOf(result))

	next := nextPipeline(t, first.Store, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")},
		"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1")},
	})
	result = runPipeline(t, next, pipelineflow.Input{Resume: true, ID: "p1"})
	require.Equal(t, "decide/error decide/completed", traceOf(result))
	require.EqualValues(t, 6, result.Usage.ModelCalls, "the replies of both runs, once each")
	require.EqualValues(t, 4, result.Trace[1].Usage.ModelCalls)
	there, err := first.Store.Exists(t.Context(), "sessions/p1-decide-l2/session.json")
	require.NoError(t, err)
	require.False(t, there, "no other team is asked")
}

// If a team's session cannot be continued, the retry fails and says so, and the next retry
// asks the team anew.
func TestPipeline_ReopenedTeamThatCannotGoOn(t *testing.T) {
	t.Parallel()
	split := map[string][]any{"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1")}, "agent_b": {stagetest.Answer("B."), stagetest.Vote("agent2")}}
	fail := func(team *config.Team) { team.Orchestrator.OnSplit = "fail" }
	store := stagetest.New(t, nil, nil).Store
	var result acts.Result
	for n, in := range []pipelineflow.Input{{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)}, {Resume: true, ID: "p1"}, {Resume: true, ID: "p1"}} {
		s := stagetest.NewOn(t, store, split, fail)
		s.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
		result = runPipeline(t, s, in)
		require.Equal(t, []int{2, 0, 2}[n], s.Cast["agent_a"].Asked)
	}
	require.Contains(t, result.Trace[1].Error.Message, "session p1-decide-l1 cannot go on: the session would end again at once, failed: the votes are split; a retry asks the team anew")
	require.Contains(t, result.Trace[2].Error.Message, "the session p1-decide-l3 ended failed")
	require.EqualValues(t, 8, result.Usage.ModelCalls)
}

// A team that was cut off with its pipeline continues, and receives the messages that it
// has not heard.
func TestPipeline_ReopenedTeamAfterTermination(t *testing.T) {
	t.Parallel()
	var first *stagetest.Stage
	var cut *artifact.Dir
	first = newPipeline(t, map[string][]any{
		"agent_a": {stagetest.Answer("A."), stagetest.Block{Reached: func() { cut = stagetest.CopyOf(t, first.Store); first.CancelWorkflow() }}},
		"agent_b": {stagetest.Answer("B."), stagetest.Never()},
	})
	first.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Who?", ID: "p1", Config: json.RawMessage(deciding)})
	next := nextPipeline(t, cut, map[string][]any{"agent_a": {stagetest.Vote("agent1")}, "agent_b": {stagetest.Vote("agent1")}})
	result := runPipeline(t, next, pipelineflow.Input{Resume: true, ID: "p1"})
	require.Equal(t, "decide/completed", traceOf(result))
	require.EqualValues(t, 4, result.Usage.ModelCalls)
}

// A step whose model's server has been away for too long fails, and goes on after the
// outage with everything that was paid for.
func TestPipeline_Outage(t *testing.T) {
	t.Parallel()
	outage := &llm.Error{Kind: llm.Network, Status: 502, Message: "no response", Since: time.Now().Add(-10 * time.Minute)}
	first := newPipeline(t, map[string][]any{"agent_a": {stagetest.Call("list_files", nil), outage}, "agent_b": nil})
	result := runPipeline(t, first, pipelineflow.Input{Request: "Write.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, pipeline.Failed, result.Status)
	require.Equal(t, "Outage", result.Error.Type)
	require.Regexp(t, `^no usable reply for 10m\d+s: no response$`, result.Error.Message)

	next := nextPipeline(t, first.Store, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
	result = runPipeline(t, next, pipelineflow.Input{Resume: true})
	require.Equal(t, "main/error main/completed export/completed", traceOf(result))
	require.EqualValues(t, 3, result.Usage.ModelCalls)
}
