//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"conclave/activities"
	pipelineacts "conclave/activities/pipeline"
	acts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	"conclave/worker"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
)

// workPipelines starts a worker with the pipelines registered in the returned directory.
func (s *site) workPipelines() activities.Teams {
	s.t.Helper()
	teams := activities.Teams{Named: map[string]config.Team{}, Dir: s.t.TempDir()}
	stop, err := worker.Start(worker.Config{Client: s.client, Store: s.store, Scratch: s.t.TempDir(), Teams: teams})
	require.NoError(s.t, err)
	s.t.Cleanup(stop)
	return teams
}

// startPipeline starts a run of the pipeline in file.
func (s *site) startPipeline(teams activities.Teams, id, file string) client.WorkflowRun {
	s.t.Helper()
	p, _, err := config.ParsePipeline("pipeline", []byte(file), config.Local)
	require.NoError(s.t, err)
	name, err := teams.Register(p)
	require.NoError(s.t, err)
	run, err := s.client.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue},
		pipelineflow.Type, pipelineflow.Input{Request: "A haiku.", Pipeline: name})
	require.NoError(s.t, err)
	return run
}

// replayPipeline is replay for the history of a pipeline.
func (s *site) replayPipeline(id, name string) {
	s.t.Helper()
	s.replayAs(pipelineflow.Workflow, pipelineflow.Type, fmt.Sprintf("pipeline%d", pipeline.Protocol), id, name)
}

const nested = `start: main
limits: {max_call_depth: 2}
steps:
  - {name: main, agent: agent_a, prompt: You write., destinations: [lint, export], max_iterations: 3}
  - {name: lint, agent: agent_b, destinations: [deep], history: true}
  - {name: deep, kind: tools, calls: [{tool: list_files}], next: lint}
  - {name: export, agent: agent_b, history: true}
`

// outcomes is a graph whose rules look at outcomes, with limits of the run and of a step.
const outcomes = `start: check
steps:
  - name: check
    kind: tools
    calls: [{tool: read_file, args: {path: draft.md}}]
    on_tool_error: fail
    next: [{when: {failed: true}, to: mend}, {when: {text_matches: frog}, to: mend}, {to: stop}]
  - {name: mend, agent: agent_a, history: last, limits: {seconds: 600}, max_visits: {count: 2, then: stop}, next: check}
  - {name: stop, agent: agent_b, history: true}
limits: {seconds: 3600}
`

// All ways in which a run can end are replayed from the first event with each workflow task.
func TestUncachedPipeline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, graph, trace string
		script             map[string][]reply
		status             pipeline.Status
	}{
		{
			name: "call_and_return", graph: called, status: pipeline.Completed,
			script: map[string][]reply{
				"model-a": {write("draft.md", "a frog"), calls("lint"), says("Written.")}, "model-b": {says("Exported.")},
			},
			trace: "main/call_pending lint/completed main/completed export/completed",
		},
		{
			name: "nested_and_jumped", graph: nested, status: pipeline.Completed,
			script: map[string][]reply{
				"model-a": {calls("lint"), jumps("export")}, "model-b": {calls("deep"), says("Clean."), says("Exported.")},
			},
			trace: "main/call_pending lint/call_pending deep/completed lint/completed main/completed export/completed",
		},
		{
			name: "a_caller_without_iterations", graph: nested, status: pipeline.MaxIterations,
			script: map[string][]reply{
				"model-a": {list(), list(), calls("lint")}, "model-b": {says("Clean.")},
			},
			trace: "main/call_pending lint/completed main/max_iterations",
		},
		{
			name: "failed_step", graph: strings.Replace(called, "park", "stop", 1), status: pipeline.Failed,
			script: map[string][]reply{"model-a": {fails(401)}},
			trace:  "main/error",
		},
		{
			name: "outcomes_and_visits", graph: outcomes, status: pipeline.Completed,
			script: map[string][]reply{
				"model-a": {write("draft.md", "a frog"), says("Written."), says("Left as it is.")}, "model-b": {says("Stopped.")},
			},
			trace: "check/error mend/completed check/completed mend/completed check/completed stop/completed",
		},
		{
			name: "team_as_a_step", status: pipeline.Completed, graph: `start: decide
steps:
  - {name: decide, kind: session, config: {agents: [{id: agent_a, backend: {model: model-a, base_url: 'URL/v1'}}, {id: agent_b, backend: {model: model-b, base_url: 'URL/v1'}}],
     orchestrator: {final_answer_strategy: winner_reuse, disable_injection: true}}, next: export}
  - {name: export, agent: agent_b, history: true}
`,
			script: map[string][]reply{
				"model-a": {answer("Answer A."), vote("agent1", "Mine.")}, "model-b": {answer("Answer B."), vote("agent1", "Yes."), says("Exported.")},
			},
			trace: "decide/completed export/completed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			model := newModelServer(t, tt.script)
			var r pipelineacts.Result
			file := strings.ReplaceAll(model.pipeline(tt.graph), "URL", model.URL)
			require.NoError(t, s.startPipeline(s.workPipelines(), tt.name, file).Get(t.Context(), &r))
			require.Equal(t, tt.status, r.Status)
			require.Equal(t, tt.trace, traced(r))
			s.replayPipeline(tt.name, tt.name)
		})
	}
}

// A run ends at its time limit and counts the usage of the step that it stops.
func TestUncachedPipelineTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lost, _, hold := held(says("Lost."))
	model := newModelServer(t, map[string][]reply{"model-a": {lost}})
	t.Cleanup(func() { close(hold) })
	var r pipelineacts.Result
	file := model.pipeline("start: main\nlimits: {seconds: 2}\nsteps: [{name: main, agent: agent_a}]\n")
	require.NoError(t, s.startPipeline(s.workPipelines(), "time", file).Get(t.Context(), &r))
	require.Equal(t, pipeline.Failed, r.Status)
	require.Equal(t, "main/cancelled", traced(r))
	s.replayPipeline("time", "time_of_the_run")
}

// A user pauses a step, sends a message, resumes, and cancels.
func TestUncachedPipelinePeople(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first, asked, hold := held(says("Lost."))
	second, askedAgain, holdAgain := held(says("Lost, too."))
	model := newModelServer(t, map[string][]reply{"model-a": {list(), first, says("Written.")}, "model-b": {second}})
	t.Cleanup(func() { close(hold); close(holdAgain) })
	run := s.startPipeline(s.workPipelines(), "people", model.pipeline(called))
	<-asked
	send := func(signal string, input any) {
		require.NoError(t, s.client.SignalWorkflow(t.Context(), "people", "", signal, input))
	}
	send(workflows.PauseSignal, nil)
	require.Eventually(t, func() bool {
		value, err := s.client.QueryWorkflow(t.Context(), "people", "", workflows.StateQuery)
		var state pipelineacts.State
		return err == nil && value.Get(&state) == nil && state.Paused
	}, 20*time.Second, 20*time.Millisecond)
	handle, err := s.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: "people", UpdateName: workflows.SaySignal, Args: []any{workflows.Request{Text: "A toad."}}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, handle.Get(t.Context(), nil))
	send(workflows.ResumeSignal, nil)
	<-askedAgain
	require.Contains(t, model.request("model-a", 3), "A toad.")
	require.NoError(t, s.client.CancelWorkflow(t.Context(), "people", ""))
	require.Error(t, run.Get(t.Context(), nil))
	var r pipelineacts.Result
	s.read("pipelines/people/result.json", &r)
	require.Equal(t, "main/completed export/cancelled", traced(r))
	s.replayPipeline("people", "paused_told_cancelled")
}

// The team of a step is paused with the run, keeps its work, and receives a user's messages.
func TestUncachedPipelineTeamIsHeld(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lost, asked, hold := held(answer("Lost."))
	model := newModelServer(t, map[string][]reply{"model-a": {list(), lost, answer("Answer A."), vote("agent1", "Mine."), vote("agent1", "Still.")}})
	t.Cleanup(func() { close(hold) })
	run := s.startPipeline(s.workPipelines(), "held", strings.ReplaceAll(`start: decide
steps:
  - {name: decide, kind: session, config: {agents: [{id: agent_a, backend: {model: model-a, base_url: 'URL/v1'}}], orchestrator: {final_answer_strategy: winner_reuse}}}
`, "URL", model.URL))
	<-asked
	team := func() acts.State { return s.state("held-decide-l1") }
	send := func(signal string, input any) {
		require.NoError(t, s.client.SignalWorkflow(t.Context(), "held", "", signal, input))
	}
	send(workflows.PauseSignal, nil)
	require.Eventually(t, func() bool { return team().Paused && s.running("held-decide-l1") == 0 }, 20*time.Second, 20*time.Millisecond)
	send(workflows.SaySignal, workflows.Request{Text: "A toad."})
	require.Eventually(t, func() bool { return team().Messages == 1 }, 20*time.Second, 20*time.Millisecond)
	send(workflows.ResumeSignal, nil)
	var r pipelineacts.Result
	require.NoError(t, run.Get(t.Context(), &r))
	require.Equal(t, "decide/completed", traced(r))
	require.Equal(t, "Answer A.", r.Final)
	require.Contains(t, model.request("model-a", 3), "A toad.")
	require.Contains(t, model.request("model-a", 3), "list_files", "it resumes from its journal")
	s.replayPipeline("held", "team_held")
}

// A failed step is parked until a user retries it.
func TestUncachedPipelineRetry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{"model-a": {list(), fails(401), says("Written.")}, "model-b": {says("Exported.")}})
	run := s.startPipeline(s.workPipelines(), "parked", model.pipeline(called))
	require.Eventually(t, func() bool {
		value, err := s.client.QueryWorkflow(t.Context(), "parked", "", workflows.StateQuery)
		var state pipelineacts.State
		return err == nil && value.Get(&state) == nil && state.Parked != nil
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, s.client.SignalWorkflow(t.Context(), "parked", "", workflows.RetrySignal, nil))
	var r pipelineacts.Result
	require.NoError(t, run.Get(t.Context(), &r))
	require.Equal(t, "main/error main/completed export/completed", traced(r))
	require.Equal(t, 3, model.calls("model-a"), "the step's calls are kept")
	s.replayPipeline("parked", "parked_and_retried")
}

// A workflow that is reset runs its steps again under new numbers; committed documents and a
// caller's messages stay.
func TestUncachedPipelineReset(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("draft.md", "a frog"), calls("lint"), says("Written."), says("Written again.")},
		"model-b": {says("Exported."), says("Exported again.")},
	})
	run := s.startPipeline(s.workPipelines(), "reset", model.pipeline(called))
	var r pipelineacts.Result
	require.NoError(t, run.Get(t.Context(), &r))
	require.Equal(t, "Exported.", r.Final)

	back := func(h *historypb.History) int64 { // to the task that returned to main
		for _, e := range h.Events {
			if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityId() == "main-l3" {
				return a.WorkflowTaskCompletedEventId
			}
		}
		return 0
	}
	require.NoError(t, s.reset(run, back).Get(t.Context(), &r))
	require.Equal(t, "Exported again.", r.Final)
	require.Equal(t, "main/call_pending lint/completed main/completed export/completed", traced(r))
	require.Equal(t, 5, r.Trace[2].Number, "after those of the run before the reset")
	require.Contains(t, model.request("model-a", 4), "[Called step completed with result: a frog")
	var old struct{ Answer string }
	s.read("pipelines/reset/steps/003-main/answer.json", &old)
	require.Equal(t, "Written.", old.Answer)
	var status pipelineacts.State
	s.read("pipelines/reset/status.json", &status)
	require.Equal(t, r.Trace, status.Trace)
	s.replayPipeline("reset", "reset")
}

// The history of 200 transitions with conversations of nearly a megabyte has only references.
func TestPipelineHistoryIsSmall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const callsMade = 100
	replies := []reply{write("draft.md", strings.Repeat("A frog. ", 112<<10))}
	for range callsMade {
		replies = append(replies, calls("lint"))
	}
	model := newModelServer(t, map[string][]reply{"model-a": append(replies, says("Written."))})
	var r pipelineacts.Result
	file := model.pipeline(`start: main
limits: {max_transitions: 200}
steps:
  - {name: main, agent: agent_a, destinations: [lint], max_iterations: 150, history: true}
  - {name: lint, kind: tools, calls: [{tool: list_files}]}
`)
	require.NoError(t, s.startPipeline(s.workPipelines(), "small", file).Get(t.Context(), &r))
	require.Equal(t, pipeline.Completed, r.Status)
	require.Equal(t, 200, r.Transitions)
	require.Greater(t, len(model.request("model-a", callsMade)), 7<<17)
	d, err := s.client.DescribeWorkflowExecution(t.Context(), "small", "")
	require.NoError(t, err)
	info := d.WorkflowExecutionInfo
	t.Logf("%d events and %d bytes of history, %d bytes a transition", info.HistoryLength, info.HistorySizeBytes, info.HistorySizeBytes/200)
	require.Less(t, info.HistorySizeBytes, int64(2<<20))
}
