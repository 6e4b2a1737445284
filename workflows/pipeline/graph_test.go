package pipeline_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/pipeline"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	"conclave/workflows/stagetest"
)

const writing = `{
	"start": "main",
	"agents": [{"id": "agent_a", "backend": {"model": "m"}}, {"id": "agent_b", "backend": {"model": "m"}}],
	"steps": [
		{"name": "main", "kind": "agent", "agent": "agent_a", "prompt": "You write.", "destinations": ["lint", "export"], "next": "export"},
		{"name": "lint", "kind": "tools", "calls": [{"tool": "read_file", "args": {"path": "draft.md"}}]},
		{"name": "export", "kind": "agent", "agent": "agent_b", "history": true}
	]
}`

// runPipeline plays a pipeline to its end.
func runPipeline(t *testing.T, s *stagetest.Stage, in pipelineflow.Input) acts.Result {
	t.Helper()
	return stagetest.Play[acts.Result](t, s, pipelineflow.Type, in)
}

func newPipeline(t *testing.T, scripts map[string][]any) *stagetest.Stage {
	t.Helper()
	s := stagetest.New(t, scripts, nil)
	s.RegisterWorkflowWithOptions(pipelineflow.Workflow, workflow.RegisterOptions{Name: pipelineflow.Type})
	return s
}

func traceOf(r acts.Result) string {
	var all []string
	for _, g := range r.Trace {
		all = append(all, g.Step+"/"+string(g.Status))
	}
	return strings.Join(all, " ")
}

// main writes and calls lint, which reads main's files and returns to main's
// conversation; export receives the message.
func TestPipeline_CallAndReturn(t *testing.T) {
	t.Parallel()
	var resumed []llm.Message
	s := newPipeline(t, map[string][]any{
		"agent_a": {
			stagetest.Call("write_file", map[string]string{"path": "draft.md", "content": "a frog"}),
			stagetest.Call("call_step", map[string]string{"step_name": "lint"}),
			stagetest.Text("written"),
		},
		"agent_b": {stagetest.Call("read_file", map[string]string{"path": "draft.md"}), stagetest.Text("exported")},
	})
	s.Cast["agent_a"].Saw = func(n int, req llm.Request) {
		if n == 3 {
			resumed = req.Messages
		}
	}
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write a haiku.", ID: "p1", Config: json.RawMessage(writing)})
	require.Equal(t, pipeline.Completed, result.Status)
	require.Equal(t, "main/call_pending lint/completed main/completed export/completed", traceOf(result))
	require.Equal(t, "exported", result.Final)
	require.Equal(t, int64(5), result.Usage.ModelCalls, "a step without a model costs nothing")
	require.Len(t, result.History, 3)

	kept, err := artifact.ReadJSON[artifact.Commit](t.Context(), s.Store, "pipelines/p1/steps/001-main/action.json")
	require.NoError(t, err)
	var called struct{ Messages string }
	require.NoError(t, json.Unmarshal(kept.Payload, &called))
	blob, err := s.Store.Get(t.Context(), "pipelines/p1/blobs/sha256/"+called.Messages)
	require.NoError(t, err)
	var caller struct{ Messages []llm.Message }
	require.NoError(t, json.Unmarshal(blob, &caller))
	note := llm.Message{Role: llm.User, Content: "[Called step completed with result: a frog]"}
	require.Equal(t, append(caller.Messages, note), resumed, "byte for byte, and one note")

	for _, file := range []string{
		"steps/001-main/transcript.jsonl", "steps/003-main/answer.json", "steps/004-export/workspace.json", "steps/002-lint/answer.json",
		"status.json", "result.json", "pipeline.json", "config.json",
	} {
		there, err := s.Store.Exists(t.Context(), "pipelines/p1/"+file)
		require.NoError(t, err)
		require.True(t, there, file)
	}
	onDisk, err := artifact.ReadJSON[acts.Result](t.Context(), s.Store, "pipelines/p1/result.json")
	require.NoError(t, err)
	require.Equal(t, result, onDisk)
	for key, err := range s.Store.List(t.Context(), "pipelines/p1/journal/") {
		require.NoError(t, err)
		require.Fail(t, "a journal is left", key)
	}
	stagetest.RequireTimes(t, s.Store, artifact.InPipeline("p1"))
}

func TestPipeline_InvalidInputFailsAtOnce(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]pipelineflow.Input{
		"no request":   {Config: json.RawMessage(writing)},
		"no pipeline":  {Request: "q"},
		"unknown name": {Request: "q", Pipeline: "nobody"},
		"both":         {Request: "q", Pipeline: "x", Config: json.RawMessage(writing)},
		"bad graph":    {Request: "q", Config: json.RawMessage(strings.Replace(writing, `"next": "export"`, `"next": "exprot"`, 1))},
		"reaches out":  {Request: "q", Config: json.RawMessage(strings.Replace(writing, `"model": "m"`, `"model": "m", "base_url": "http://127.0.0.1:1"`, 1))},
		"id leaves":    {Request: "q", ID: "../other", Config: json.RawMessage(writing)},
		"forged":       stagetest.Continued[pipelineflow.Input](t, `{"request":"q","config":`+writing+`,"continued":{}}`),
		"no such team": {Request: "q", Config: json.RawMessage(`{"start":"d","steps":[{"name":"d","kind":"session","team":"nobody"}]}`)},
		"id too long for the team's session": {
			Request: "q", ID: strings.Repeat("x", 113),
			Config: json.RawMessage(`{"start":"w","agents":[{"id":"agent_a","backend":{"type":"openai","model":"m"}}],"steps":[{"name":"w","next":"decide"},{"name":"decide","kind":"session"}]}`),
		},
		"huge requests": {Request: strings.Repeat("x", workflows.MaxInput+1), Config: json.RawMessage(writing)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPipeline(t, stagetest.Seed())
			s.ExecuteWorkflow(pipelineflow.Type, in)
			require.True(t, s.IsWorkflowCompleted())
			var refused *temporal.ApplicationError
			require.ErrorAs(t, s.GetWorkflowError(), &refused)
			require.True(t, refused.NonRetryable())
			require.Zero(t, s.Cast["agent_a"].Asked, "nothing was paid for")
		})
	}
}

// "session (a team as one step: child workflow, its decision is the step's text)"
func TestPipeline_ATeamAsAStep(t *testing.T) {
	t.Parallel()
	scripts := stagetest.Seed()
	scripts["agent_a"] = append([]any{stagetest.Call("write_file", map[string]string{"path": "shop.md", "content": "x"})}, scripts["agent_a"]...)
	s := newPipeline(t, scripts)
	result := runPipeline(t, s, pipelineflow.Input{
		Request: "Who?", ID: "p2",
		Config: json.RawMessage(`{"start":"decide","steps":[{"name":"decide","kind":"session","prompt":"Decide well."}]}`),
	})
	require.Equal(t, "decide/completed", traceOf(result))
	require.Equal(t, "C, improved.", result.Final)
	require.Equal(t, int64(10), result.Usage.ModelCalls, "the team's usage is the step's")
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), s.Store, "sessions/p2-decide-l1/session.json")
	require.NoError(t, err)
	require.Equal(t, "Decide well.\n\nWho?", session.Query)
}

// After a reset, the team gets a session of its own, since the run before the reset
// has used the first ID.
func TestPipeline_ATeamHasASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, stagetest.Seed())
	before := artifact.Session{Query: "Who, then?", Owner: artifact.Owner{WorkflowID: "p7-decide-l1", FirstRunID: "of the run before"}}
	require.NoError(t, artifact.CreateJSON(t.Context(), s.Store, "sessions/p7-decide-l1/session.json", before))
	result := runPipeline(t, s, pipelineflow.Input{
		Request: "Who?", ID: "p7", Config: json.RawMessage(`{"start":"decide","steps":[{"name":"decide","kind":"session"}]}`),
	})
	require.Equal(t, "decide/completed", traceOf(result))
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), s.Store, "sessions/p7-decide-l1-2/session.json")
	require.NoError(t, err)
	require.Equal(t, "Who?", session.Query)
	kept, err := artifact.ReadJSON[artifact.Session](t.Context(), s.Store, "sessions/p7-decide-l1/session.json")
	require.NoError(t, err)
	require.Equal(t, before.Query, kept.Query)
}

// A reset to the start of the session keeps the question's answer, which names the
// used ID: another ID is chosen.
func TestPipeline_ATeamHasASessionOfItsOwnAlsoLater(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, stagetest.Seed())
	asked := 0
	s.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, err error) {
		if info.ActivityType.Name == "Prepare" && err != nil {
			// The messages reach the session that cannot begin and the one that replaces it.
			s.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "Use tabs."})
		}
		if info.ActivityType.Name != "AskTeam" {
			return
		}
		if asked++; asked == 1 {
			before := artifact.Session{Query: "Who, then?", Owner: artifact.Owner{WorkflowID: "p8-decide-l1", FirstRunID: "of the run before"}}
			require.NoError(t, artifact.CreateJSON(t.Context(), s.Store, "sessions/p8-decide-l1/session.json", before))
		}
	})
	result := runPipeline(t, s, pipelineflow.Input{
		Request: "Who?", ID: "p8", Config: json.RawMessage(`{"start":"decide","steps":[{"name":"decide","kind":"session"}]}`),
	})
	require.Equal(t, "decide/completed", traceOf(result))
	require.Equal(t, 2, asked)
	_, err := artifact.ReadJSON[artifact.Session](t.Context(), s.Store, "sessions/p8-decide-l1-2/session.json")
	require.NoError(t, err)
	said, err := s.Store.Get(t.Context(), "sessions/p8-decide-l1-2/messages/001.json")
	require.NoError(t, err)
	require.Contains(t, string(said), "Use tabs.")
}

// Signals that arrive before the first step: a pause prevents its launch, and the
// first step receives the message.
func TestPipeline_PauseSayAndResume(t *testing.T) {
	t.Parallel()
	var opening []llm.Message
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
	s.Cast["agent_a"].Saw = func(_ int, req llm.Request) { opening = req.Messages }
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.PauseSignal, nil) }, 0)
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.SaySignal, map[string]any{"txet": "Use tabs."}) }, time.Second)
	s.RegisterDelayedCallback(func() {
		require.Zero(t, s.Cast["agent_a"].Asked)
		value, err := s.QueryWorkflow(workflows.StateQuery)
		require.NoError(t, err)
		var state acts.State
		require.NoError(t, value.Get(&state))
		require.Equal(t, `say: the input has an unknown key "txet": did you mean text?`, state.Ignored)
		s.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "Use tabs."})
		s.SignalWorkflow(workflows.ResumeSignal, nil)
	}, time.Minute)
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p3", Config: json.RawMessage(writing)})
	require.Equal(t, "main/completed export/completed", traceOf(result))
	require.Contains(t, opening[len(opening)-1].Content, "Use tabs.")
	events, err := s.Store.Get(t.Context(), "pipelines/p3/events.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(events), `say ignored: the input has an unknown key`)
}

func TestPipeline_AFailedStepIsRetried(t *testing.T) {
	t.Parallel()
	broken := &llm.Error{Kind: llm.AuthFailed, Message: "no such key"}
	definition := strings.Replace(writing, `"start"`, `"on_step_failure": "park", "start"`, 1)
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Call("list_files", nil), broken, stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
	s.RegisterDelayedCallback(func() { s.SignalWorkflow(workflows.RetrySignal, nil) }, time.Minute)
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p4", Config: json.RawMessage(definition)})
	require.Equal(t, "main/error main/completed export/completed", traceOf(result))
	require.Equal(t, "AuthFailed", result.Trace[0].Error.Type)

	s = newPipeline(t, map[string][]any{"agent_a": {broken}, "agent_b": nil})
	result = runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p5", Config: json.RawMessage(writing)})
	require.Equal(t, pipeline.Failed, result.Status)
	require.Equal(t, "AuthFailed", result.Error.Type)
}

func TestPipeline_Cancel(t *testing.T) {
	t.Parallel()
	var s *stagetest.Stage
	s = newPipeline(t, map[string][]any{"agent_a": {stagetest.Block{Reached: func() { s.CancelWorkflow() }}}, "agent_b": nil})
	s.ExecuteWorkflow(pipelineflow.Type, pipelineflow.Input{Request: "Write.", ID: "p6", Config: json.RawMessage(writing)})
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, s.GetWorkflowError(), &cancelled)
	result, err := artifact.ReadJSON[acts.Result](t.Context(), s.Store, "pipelines/p6/result.json")
	require.NoError(t, err)
	require.Equal(t, pipeline.Cancelled, result.Status)
	var told acts.Result
	require.True(t, workflows.CanceledResult(cancelled, &told))
	require.Equal(t, result, told)
}

// A later cancellation does not replace a result.
func TestPipeline_CancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newPipeline(t, map[string][]any{"agent_a": {stagetest.Text("written")}, "agent_b": {stagetest.Text("exported")}})
	cancelled := false
	s.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "ConcludePipeline" && !cancelled {
			cancelled = true
			s.CancelWorkflow()
		}
	})
	result := runPipeline(t, s, pipelineflow.Input{Request: "Write.", ID: "p8", Config: json.RawMessage(writing)})
	require.True(t, cancelled)
	require.Equal(t, pipeline.Completed, result.Status)
	stored, err := artifact.ReadJSON[acts.Result](t.Context(), s.Store, "pipelines/p8/result.json")
	require.NoError(t, err)
	require.Equal(t, pipeline.Completed, stored.Status)
}
