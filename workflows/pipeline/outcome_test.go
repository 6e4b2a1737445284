package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

// graphOf is a pipeline of agent_a and agent_b.
func graphOf(steps, more string) json.RawMessage {
	return json.RawMessage(`{"start":"check","agents":[{"id":"agent_a","backend":{"type":"offline"}},{"id":"agent_b","backend":{"type":"offline"}}],"steps":[` + steps + `]` + more + `}`)
}

const mend = `,{"name":"mend","agent":"agent_a","history":"last","max_visits":{"count":2,"then":"stop"},"next":"check"},{"name":"stop","agent":"agent_b","history":true}`

// A failing check, which uses no model, leads to the repairing agent at most twice and
// passes its findings on.
func TestPipeline_RulesLookAtOutcomes(t *testing.T) {
	t.Parallel()
	const check = `{"name":"check","kind":"tools","calls":[{"tool":"read_file","args":{"path":"draft.md"}}],
		"next":[{"when":{"failed":true},"to":"mend"},{"when":{"text_matches":"(?i)FROG"},"to":"mend"},{"to":"stop"}]}`
	s := newPipeline(t, map[string][]any{
		"agent_a": {
			stagetest.Call("write_file", map[string]string{"path": "draft.md", "content": "a frog"}), stagetest.Text("written"),
			stagetest.Call("write_file", map[string]string{"path": "draft.md", "content": "a frog again"}), stagetest.Text("mended"),
		},
		"agent_b": {stagetest.Text("stopped")},
	})
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: graphOf(check+mend, "")})
	require.Equal(t, "check/completed mend/completed check/completed mend/completed check/completed stop/completed", traceOf(result))
	require.True(t, result.Trace[0].Failed)
	require.False(t, result.Trace[2].Failed)
	require.Equal(t, "stopped", result.Final)
}

func TestPipeline_OnToolErrorFail(t *testing.T) {
	t.Parallel()
	const check = `{"name":"check","kind":"tools","on_tool_error":"fail","calls":[{"tool":"write_file","args":{"path":"a.md","content":"a"}},{"tool":"read_file","args":{"path":"draft.md"}}]`
	s := newPipeline(t, map[string][]any{})
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: graphOf(check+"}", "")})
	require.Equal(t, pipeline.Failed, result.Status)
	require.Equal(t, "ToolFailed", result.Error.Type)
	require.Contains(t, result.Error.Message, "read_file: error:")
	require.Contains(t, result.Final, "draft.md", "its text is the run's")

	s = newPipeline(t, map[string][]any{"agent_b": {stagetest.Call("read_file", map[string]string{"path": "a.md"}), stagetest.Text("stopped")}})
	result = runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: graphOf(check+`,"next":[{"when":{"status":"error"},"to":"stop"}]}`+mend, "")})
	require.Equal(t, "check/error stop/completed", traceOf(result))
	require.Equal(t, pipeline.Completed, result.Status)
	require.Len(t, result.History, 2)
}

// The clock of a run stops while the run is paused.
func TestPipeline_TimeOfTheRun(t *testing.T) {
	t.Parallel()
	config := graphOf(`{"name":"check","agent":"agent_a"}`, `,"limits":{"seconds":1}`)
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Never()}}) // while an activity runs, the test clock follows real time
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, 0)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.ResumeSignal, nil) }, time.Hour)
	start := s.Now()
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p1", Config: config})
	require.Equal(t, pipeline.Failed, result.Status)
	require.Equal(t, &artifact.Error{Type: pipeline.TimeOver, Message: "the run's time of 1 s is over: limits.seconds"}, result.Error)
	require.Greater(t, s.Now().Sub(start), time.Hour)
	require.Equal(t, "check/cancelled", traceOf(result), "the step that ran is stopped, and counted")

	state, err := artifact.ReadJSON[acts.State](t.Context(), s.Store, "pipelines/p1/status.json")
	require.NoError(t, err)
	require.Equal(t, string(pipeline.Failed), state.Status)
}

// A rule can name a team's status, and the step's limits apply to the team.
func TestPipeline_OutcomeOfATeam(t *testing.T) {
	t.Parallel()
	const check = `{"name":"check","kind":"session","limits":{"seconds":90},"next":[{"when":{"status":"consensus"},"to":"stop"},{"to":"mend"}],
		"config":{"agents":[{"id":"agent_a","backend":{"type":"offline"}},{"id":"agent_b","backend":{"type":"offline"}}],"orchestrator":{"skip_voting":SKIP}}}`
	for skip, trace := range map[string]string{"false": "check/completed stop/completed", "true": "check/completed mend/completed"} {
		t.Run(skip, func(t *testing.T) {
			t.Parallel()
			config := graphOf(strings.Replace(check, "SKIP", skip, 1)+strings.Replace(mend, `"next":"check"`, `"limits":{"model_calls":9}`, 1), "")
			s := newPipeline(t, map[string][]any{
				"agent_a": {stagetest.Answer("A."), stagetest.Vote("agent1"), stagetest.Text("mended")},
				"agent_b": {stagetest.Answer("B."), stagetest.Vote("agent1"), stagetest.Text("stopped")},
			})
			result := runPipeline(t, s, pipelineflow.Input{Request: "Who?", ID: "p1", Config: config})
			require.Equal(t, trace, traceOf(result))
			session, err := artifact.ReadJSON[artifact.Session](t.Context(), s.Store, "sessions/p1-check-l1/session.json")
			require.NoError(t, err)
			require.Equal(t, artifact.Limits{Seconds: 90}, session.Limits)
		})
	}
}
