package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/activities/workertest"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

const definition = `{
	"start": "write",
	"agents": [{"id": "agent_a", "system_message": "You are terse.", "backend": {"type": "openai", "model": "m"}}],
	"steps": [
		{"name": "write", "kind": "agent", "agent": "agent_a", "prompt": "Write.", "next": "lint"},
		{"name": "lint", "kind": "tools", "calls": [{"tool": "write_file", "args": {"path": "lint.txt", "content": "fine"}}], "next": "decide"},
		{"name": "decide", "kind": "session", "team": "default", "prompt": "Is it good?"}
	]
}`

// floor is a store with the activities of pipelines on it.
type floor struct {
	*testsuite.TestActivityEnvironment
	*Activities
	*workertest.Worker
	store    *artifact.Dir
	requests []llm.Request // to the model, whose answer is "Said."
}

// Generate implements loop.Model.
func (f *floor) Generate(_ context.Context, r llm.Request) (llm.Reply, error) {
	f.requests = append(f.requests, r)
	return llm.Reply{Message: llm.Message{Role: llm.Assistant, Content: "Said."}, Usage: llm.Usage{InputTokens: 10, OutputTokens: 1, ModelCalls: 1}}, nil
}

func newFloor(t *testing.T) *floor {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	f := &floor{store: store, Worker: &workertest.Worker{}}
	f.OnModel = func(config.Agent) (loop.Model, error) { return f, nil }
	a := &Activities{Process: attempt.Process{
		Equipment: f.Worker, Server: f.Worker,
		Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: config.Default()}},
		Store: store, Now: time.Now, Scratch: t.TempDir(),
	}}
	var suite testsuite.WorkflowTestSuite
	f.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	f.SetTestTimeout(2 * time.Minute)
	f.Activities = a
	a.RegisterSteps(f.TestActivityEnvironment)
	a.RegisterBookkeeping(f.TestActivityEnvironment)
	return f
}

// run runs an activity and returns its result.
func run[T any](f *floor, activity string, in any) (result T, err error) {
	value, err := f.ExecuteActivity(activity, in)
	if err == nil && value.HasValue() {
		err = value.Get(&result)
	}
	return result, err
}

// input starts the run p1.
func input() PrepareInput {
	return PrepareInput{
		ID: "p1", Owner: artifact.Owner{WorkflowID: "w", FirstRunID: "f"},
		Request: "A haiku", Config: json.RawMessage(definition),
	}
}

// prepared returns a floor with the run p1.
func prepared(t *testing.T) (*floor, Prepared) {
	t.Helper()
	f := newFloor(t)
	p, err := run[Prepared](f, "PreparePipeline", input())
	require.NoError(t, err)
	return f, p
}

func TestPreparePipeline(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	require.Equal(t, "write", p.Graph.Start)
	require.Len(t, p.Graph.Steps, 3)
	require.Equal(t, pipeline.DefaultIterations, p.Graph.Steps[1].MaxIterations, "the step of tools asks no model")
	require.True(t, strings.HasSuffix(p.URL, "pipelines/p1/pipeline.json"), p.URL)
	require.False(t, p.Offline)

	claimed, err := artifact.ReadJSON[file](t.Context(), f.store, artifact.InPipeline("p1").File("pipeline.json"))
	require.NoError(t, err)
	require.Equal(t, "A haiku", claimed.Request)
	require.Equal(t, p.ConfigHash, claimed.ConfigHash)
	stored, err := f.store.Get(t.Context(), artifact.InPipeline("p1").File("config.json"))
	require.NoError(t, err)
	kept, _, err := config.ParsePipeline("config.json", stored, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, p.ConfigHash, kept.Hash())

	again, err := run[Prepared](f, "PreparePipeline", input())
	require.NoError(t, err, "a retry finds its own claim")
	require.Equal(t, p, again)
}

func TestPreparePipeline_refuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change   func(*PrepareInput)
		kind     string
		contains string
	}{
		"another workflow's run": {func(in *PrepareInput) { in.FirstRunID = "g" }, activities.SessionTaken, "run p1 belongs to workflow w, first run f: choose another ID"},
		"no pipeline":            {func(in *PrepareInput) { in.Config = nil }, activities.ConfigInvalid, "the input has no pipeline"},
		"null":                   {func(in *PrepareInput) { in.Config = json.RawMessage("null") }, activities.ConfigInvalid, "the input has no pipeline"},
		"a name and a config":    {func(in *PrepareInput) { in.Pipeline = "x" }, activities.ConfigInvalid, "give one"},
		"an unknown name":        {func(in *PrepareInput) { in.Config, in.Pipeline = nil, "x" }, activities.ConfigInvalid, `this worker has no pipeline "x"`},
		"an unknown team": {func(in *PrepareInput) {
			in.Config = json.RawMessage(strings.Replace(definition, `"team": "default"`, `"team": "nobody"`, 1))
		}, activities.ConfigInvalid, `step decide: this worker has no team "nobody"`},
		"an ID too long for a session's": {func(in *PrepareInput) { in.ID = strings.Repeat("x", artifact.MaxSessionID) }, activities.ConfigInvalid, "the session of step decide needs a longer one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := prepared(t)
			in := input()
			tt.change(&in)
			_, err := run[Prepared](f, "PreparePipeline", in)
			var failed *temporal.ApplicationError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tt.kind, failed.Type())
			require.True(t, failed.NonRetryable())
			require.ErrorContains(t, err, tt.contains)
		})
	}
}

// Every kind of step commits a text, which the result of the run quotes.
func TestRunPipelineStep(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	perform := func(l pipeline.Launch, d *TeamDecision) StepResult {
		l.Most = pipeline.DefaultIterations
		r, err := run[StepResult](f, StepActivity, StepInput{Run: "p1", ConfigHash: p.ConfigHash, Launch: l, Decision: d})
		require.NoError(t, err)
		require.Equal(t, pipeline.Completed, r.Status)
		require.True(t, r.Said)
		return r
	}

	wrote := perform(pipeline.Launch{ID: "l1", Step: "write", Kind: pipeline.Agent}, nil)
	require.Equal(t, "Said.", wrote.Text)
	require.Len(t, f.requests, 1)
	require.Contains(t, f.requests[0].Messages[0].Content, "You are terse.\n\nWrite.")

	linted := perform(pipeline.Launch{ID: "l2", Step: "lint", Kind: pipeline.Tools, After: 1}, nil)
	require.Zero(t, linted.Usage.InputTokens, "no model was asked")
	require.NotEmpty(t, linted.Workspace, "the file that the call wrote")

	answers := artifact.InBucket("p1-decide-l3")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, answers.File("session.json"), artifact.Session{}))
	path := answers.Final("agent_b", "answer.json")
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, path, artifact.Answer{AgentID: "agent_b", Answer: "It is good."}))
	cost := llm.Usage{InputTokens: 70, ModelCalls: 7}
	decided := perform(pipeline.Launch{ID: "l3", Step: "decide", Kind: pipeline.Session, After: 2, Workspace: linted.Workspace},
		&TeamDecision{Session: "p1-decide-l3", Status: "consensus", Path: f.store.URL(path), Cost: cost})
	require.Equal(t, "It is good.", decided.Text)
	require.Equal(t, cost, decided.Usage)
	require.Len(t, f.requests, 1)

	final := pipeline.Ref{Number: decided.Number, Step: "decide"}
	result, err := run[Result](f, "ConcludePipeline", ConcludeInput{
		Run: "p1", Final: &final, History: []pipeline.Ref{{Number: wrote.Number, Step: "write"}, final},
		Result: Result{ID: "p1", Status: pipeline.Completed},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"Said.", "It is good."}, []string{result.History[0].Text, result.History[1].Text})
	require.Equal(t, "It is good.", result.Final)
	require.Equal(t, result.History[1].Path, *result.FinalPath)
	stored, err := artifact.ReadJSON[Result](t.Context(), f.store, artifact.InPipeline("p1").File("result.json"))
	require.NoError(t, err)
	require.Equal(t, result, stored)
}

// A record can be repeated, and inputs have only new entries.
func TestRecordPipeline(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	layout := artifact.InPipeline("p1")
	running, ended := pipeline.New(p.Graph), pipeline.New(p.Graph)
	ended.Step(pipeline.TimeUp{})
	ended.Drain()
	journal := layout.Journal("token", 1)
	require.NoError(t, f.store.Put(t.Context(), journal, bytes.NewReader([]byte("{}"))))
	first := RecordInput{
		Run: "p1", Messages: []pipeline.Keep{{Number: 1, Text: "Shorter."}},
		Events: []pipeline.Entry{{Seq: 1, Text: "one"}, {Seq: 2, Text: "two"}},
		Saved:  &Saved{Core: running},
		Status: State{ID: "p1", Status: "running"}, Trace: []pipeline.TraceEntry{{Number: 1, Step: "write"}},
	}
	second := RecordInput{
		Run: "p1", Saved: &Saved{Core: ended}, Events: []pipeline.Entry{{Seq: 2, Text: "two, again"}, {Seq: 3, Text: "three"}},
		Status: State{ID: "p1", Status: "completed"}, Traced: 1, Trace: []pipeline.TraceEntry{{Number: 2, Step: "lint"}}, Over: true,
	}
	for _, in := range []RecordInput{first, first, second, second} {
		_, err := run[struct{}](f, "RecordPipeline", in)
		require.NoError(t, err)
		there, err := f.store.Exists(t.Context(), journal)
		require.NoError(t, err)
		require.Equal(t, !in.Over, there, "journals are deleted at the end")
	}
	said, err := artifact.ReadJSON[step.Message](t.Context(), f.store, layout.Message(1))
	require.NoError(t, err)
	require.Equal(t, "Shorter.", said.Text)
	events, err := f.store.Get(t.Context(), layout.File("events.jsonl"))
	require.NoError(t, err)
	require.Equal(t, `{"seq":1,"text":"one"}
{"seq":2,"text":"two, again"}
{"seq":3,"text":"three"}
`, string(events))
	status, err := artifact.ReadJSON[State](t.Context(), f.store, layout.File("status.json"))
	require.NoError(t, err)
	require.Equal(t, "A haiku", status.Request)
	require.Equal(t, "completed", status.Status)
	require.Equal(t, []string{"write", "lint"}, []string{status.Trace[0].Step, status.Trace[1].Step})
	require.Len(t, status.Trace, 2)
}

// A late record of an earlier run of the workflow changes nothing.
func TestRecordPipeline_late(t *testing.T) {
	t.Parallel()
	f, p := prepared(t)
	core := pipeline.New(p.Graph)
	core.Drain()
	record := func(seal int, status string) error {
		_, err := run[any](f, "RecordPipeline", RecordInput{
			Run: "p1", Status: State{ID: "p1", Status: status}, Saved: &Saved{Core: core.Outline(), Prepared: Prepared{Seal: seal}},
		})
		return err
	}
	require.NoError(t, record(0, "running"))
	for range 2 { // the repetition finds the seal that the first call made
		r, err := run[Reopening](f, "ReopenPipeline", ReopenInput{Run: "p1", WorkflowID: "w"})
		require.NoError(t, err)
		require.Equal(t, 1, r.Saved.Prepared.Seal)
		require.NotEmpty(t, r.Event.Unclaimed)
		require.Equal(t, p.Graph, r.Saved.Core.Graph)
	}
	var refused *temporal.ApplicationError
	require.ErrorAs(t, record(0, "late"), &refused)
	require.Equal(t, "Superseded", refused.Type())
	require.NoError(t, record(1, "going on"))
	status, err := artifact.ReadJSON[State](t.Context(), f.store, "pipelines/p1/status.json")
	require.NoError(t, err)
	require.Equal(t, "going on", status.Status)

	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "pipelines/p1/"+artifact.Deleted, struct{}{}))
	_, err = run[Reopening](f, "ReopenPipeline", ReopenInput{Run: "p1", WorkflowID: "w"})
	require.ErrorContains(t, err, "run p1 is being deleted")
}

// A limit in dollars needs the prices of all models, including those of teams.
func TestPreparePipeline_unpriced(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"of the run": func(s string) string { return strings.Replace(s, `"start"`, `"limits": {"cost_usd": 2}, "start"`, 1) },
		"of a step": func(s string) string {
			return strings.Replace(s, `"kind": "agent"`, `"limits": {"cost_usd": 2}, "kind": "agent"`, 1)
		},
		"of the team": func(s string) string {
			return strings.Replace(s, `"team": "default"`, `"limits": {"cost_usd": 2}, "config": {"agents": [{"id": "agent_b", "backend": {"model": "m"}}]}`, 1)
		},
		"of a team of the worker": func(s string) string {
			return strings.Replace(s, `"team": "default"`, `"limits": {"cost_usd": 2}, "team": "default"`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input()
			in.Config = json.RawMessage(change(definition))
			_, err := run[Prepared](newFloor(t), "PreparePipeline", in)
			require.ErrorContains(t, err, "a limit in dollars is set, but the price of the model ")
		})
	}
}

// cutting provides a tool list_files that runs until the step is cancelled.
type cutting struct {
	opened step.Tools
	began  chan struct{} // closed when it runs
}

func (c cutting) Tools() []llm.Tool { return c.opened.Tools() }

func (c cutting) Close() error { return c.opened.Close() }

func (c cutting) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if call.Name != "list_files" {
		return c.opened.Run(ctx, call)
	}
	close(c.began)
	<-ctx.Done()
	return loop.Output{}, ctx.Err()
}

// cutOff makes the server cancel the step while list_files runs.
func (f *floor) cutOff() {
	began := make(chan struct{})
	f.OnOpenTools = func(ctx context.Context, a config.Agent, dir string, s activities.Sharing) (step.Tools, error) {
		opened, err := (&workertest.Worker{}).OpenTools(ctx, a, dir, s)
		return cutting{opened, began}, err
	}
	f.OnHeartbeat = func(context.Context, []byte, ...any) error {
		<-began
		return temporal.NewCanceledError()
	}
}

// A step that is cancelled in a batch of calls keeps what the batch has done.
func TestRunPipelineStep_cancelledInABatch(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	in := input()
	in.Config = json.RawMessage(strings.Replace(definition, `"content": "fine"}}]`, `"content": "fine"}}, {"tool": "list_files"}]`, 1))
	p, err := run[Prepared](f, "PreparePipeline", in)
	require.NoError(t, err)
	f.cutOff()
	_, err = run[StepResult](f, StepActivity, StepInput{
		Run: "p1", ConfigHash: p.ConfigHash, Launch: pipeline.Launch{ID: "l1", Step: "lint", Kind: pipeline.Tools, Most: pipeline.DefaultIterations},
	})
	layout := artifact.InPipeline("p1")
	dir := layout.PipelineStep(1, "lint", "")
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, err, &cancelled)
	files, err := artifact.ReadJSON[artifact.Manifest](t.Context(), f.store, dir+"partial.json")
	require.NoError(t, err)
	require.Equal(t, "lint.txt", files.Files[0].Path)
	left, err := step.ReadTranscript(t.Context(), f.store, layout, dir)
	require.NoError(t, err)
	last := left.Lines[len(left.Lines)-1]
	require.Equal(t, loop.Results, last.Kind)
	require.Len(t, last.Messages, 1, "of write_file")
}
