package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/tools"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	"conclave/engine/step"
)

// script is a model that gives its replies in order and then fails.
type script struct {
	replies  []llm.Message
	requests [][]llm.Message
}

var errOver = errors.New("the script is over")

func (s *script) Generate(_ context.Context, req llm.Request) (llm.Reply, error) {
	n := len(s.requests)
	s.requests = append(s.requests, req.Messages)
	if n >= len(s.replies) {
		return llm.Reply{}, errOver
	}
	return llm.Reply{Message: s.replies[n], Usage: llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1}}, nil
}

func uses(tool string, arguments map[string]string) llm.Message {
	data, _ := json.Marshal(arguments) // text always can be written
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "c1", Name: tool, Arguments: string(data)}}}
}

func writes(path, content string) llm.Message {
	return uses("write_file", map[string]string{"path": path, "content": content})
}

func calls(name string) llm.Message {
	return uses(callTool, map[string]string{"step_name": name})
}

var now = time.Date(2026, 3, 20, 22, 32, 3, 0, time.UTC)

// desk is the directory of a run.
type desk struct {
	t      *testing.T
	store  artifact.Store
	layout artifact.Layout
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &desk{t: t, store: store, layout: artifact.InPipeline("p1")}
}

// launch returns the launch of a step with the name after n others.
func launch(name string, n int) pipeline.Launch {
	return pipeline.Launch{ID: "l1", Step: name, Kind: pipeline.Agent, After: n, Most: 5}
}

func (d *desk) step(l pipeline.Launch, token string) Step {
	return Step{
		Layout: d.layout, Launch: l, Token: token, Agent: "agent_a",
		Prompt: "You write.", Destinations: []string{"lint", "export"}, Request: "A haiku.",
	}
}

func (d *desk) ports(model loop.Model) step.Ports {
	return step.Ports{
		Store: d.store, Model: model, Scratch: d.t.TempDir(), Now: func() time.Time { return now },
		Tools: step.OpenFunc(func(ctx context.Context, dir string) (step.Tools, error) {
			return tools.Open(ctx, dir, tools.Set{Files: true})
		}),
	}
}

// attempt runs a step, which may fail.
func (d *desk) attempt(s Step, replies ...llm.Message) (step.Result, *script, error) {
	d.t.Helper()
	model := &script{replies: replies}
	spec, err := s.Spec(d.t.Context(), d.store)
	require.NoError(d.t, err)
	r, err := step.Run(d.t.Context(), d.ports(model), spec)
	return r, model, err
}

// run runs a step to its commit.
func (d *desk) run(s Step, replies ...llm.Message) (step.Result, *script) {
	d.t.Helper()
	r, model, err := d.attempt(s, replies...)
	require.NoError(d.t, err)
	return r, model
}

// perform runs a step with a model other than a script.
func (d *desk) perform(spec step.Spec, model loop.Model) step.Result {
	d.t.Helper()
	r, err := step.Run(d.t.Context(), d.ports(model), spec)
	require.NoError(d.t, err)
	return r
}

func (d *desk) outcome(r step.Result) pipeline.Ended {
	d.t.Helper()
	o, err := Ended(r.Commit)
	require.NoError(d.t, err)
	return o
}

// keys returns the keys of all objects except blobs.
func (d *desk) keys() []string {
	d.t.Helper()
	var keys []string
	for key, err := range d.store.List(d.t.Context(), d.layout.Root()) {
		require.NoError(d.t, err)
		if name := strings.TrimPrefix(key, d.layout.Root()); !strings.HasPrefix(name, "blobs/") {
			keys = append(keys, name)
		}
	}
	return keys
}

func read[T any](d *desk, name string) T {
	d.t.Helper()
	v, err := artifact.ReadJSON[T](d.t.Context(), d.store, d.layout.File(name))
	require.NoError(d.t, err, name)
	return v
}

func (d *desk) put(key string, data []byte) {
	d.t.Helper()
	require.NoError(d.t, d.store.Put(d.t.Context(), key, bytes.NewReader(data)))
}

// A step stores the same files as a step of an agent in a session, and leaves no journal.
func TestStep_documents(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r, model := d.run(d.step(launch("main", 0), "run-l1"), writes("draft.md", "a frog"), says("Written."))
	require.Equal(t, 1, r.Step)
	require.Equal(t, []llm.Message{{Role: llm.System, Content: "You write."}, {Role: llm.User, Content: "A haiku."}}, model.requests[0])
	require.Equal(t, pipeline.Ended{
		Status: pipeline.Completed, Iterations: 2, Text: "Written.", Said: true, Workspace: r.Commit.Manifest, Usage: r.Usage,
	}, d.outcome(r))
	require.Equal(t, []string{
		"claims/001.json",
		"steps/001-main/action.json",
		"steps/001-main/answer.json",
		"steps/001-main/last_action.json",
		"steps/001-main/step.json",
		"steps/001-main/transcript.jsonl",
		"steps/001-main/workspace.json",
		"steps/001-main/workspace/draft.md",
	}, d.keys())
	require.Equal(t, "run-l1", read[artifact.Claim](d, "claims/001.json").Token)
	require.Equal(t, artifact.Answer{AgentID: "agent_a", Answer: "Written.", Timestamp: now, Label: "main"}, read[artifact.Answer](d, "steps/001-main/answer.json"))
	text, workspace := "Written.", d.store.URL(d.layout.File("steps/001-main/workspace"))
	require.Equal(t, artifact.LastAction{
		AgentID: "agent_a", Action: "completed", AnswerText: &text, Timestamp: now, StepNumber: 1, WorkspacePath: &workspace,
		Cost: llm.Usage{InputTokens: 200, OutputTokens: 20, ModelCalls: 2},
	}, read[artifact.LastAction](d, "steps/001-main/last_action.json"))
	transcript, err := d.store.Get(t.Context(), d.layout.File("steps/001-main/transcript.jsonl"))
	require.NoError(t, err)
	require.Contains(t, string(transcript), "Written.", "the final text is a part of the conversation")

	// A committed step is found and does not run again.
	again, model := d.run(d.step(launch("main", 0), "run-l1"))
	require.Empty(t, model.requests)
	require.Equal(t, r.Commit, again.Commit)
}

// Paths of the step's directory in its text are relative to the shared workspace.
func TestStep_pathsInTexts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r, _ := d.run(d.step(launch("main", 0), "run-l1"), says("See /tmp/w/conclave-step-7/files/draft.md."))
	require.Equal(t, "See draft.md.", d.outcome(r).Text)
	require.Equal(t, "See draft.md.", read[artifact.Answer](d, "steps/001-main/answer.json").Answer)
}

// A step starts with the files of the previous one.
func TestStep_workspace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	first, _ := d.run(d.step(launch("main", 0), "run-l1"), writes("draft.md", "a frog"), says("Written."))
	next := launch("export", 1)
	next.Workspace = first.Commit.Manifest
	d.run(d.step(next, "run-l2"), writes("final.md", "a toad"), says("Exported."))
	for name, want := range map[string]string{"draft.md": "a frog", "final.md": "a toad"} {
		data, err := d.store.Get(t.Context(), d.layout.File("steps/002-export/workspace/"+name))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	require.Len(t, read[artifact.Manifest](d, "steps/001-main/workspace.json").Files, 1, "the manifest is written once")
}

// A step with an empty text has no answer.json and does not join the history.
func TestStep_withoutText(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := d.step(launch("main", 0), "run-l1")
	s.Agent, s.Prompt = "", ""
	r, model := d.run(s, says(""))
	require.Equal(t, []llm.Message{{Role: llm.User, Content: "A haiku."}}, model.requests[0], "no prompt is no message")
	require.Equal(t, pipeline.Ended{Status: pipeline.Completed, Iterations: 1, Usage: r.Usage}, d.outcome(r))
	require.NotContains(t, d.keys(), "steps/001-main/answer.json")
	last := read[artifact.LastAction](d, "steps/001-main/last_action.json")
	require.Nil(t, last.AnswerText)
	require.Equal(t, "main", last.AgentID, "without an agent it is the step's own")
}

// A step reads earlier texts as they were committed; a missing text is an error.
func TestStep_history(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.run(d.step(launch("main", 0), "run-l1"), says("A frog."))
	export := launch("export", 1)
	export.History, export.Omitted = []pipeline.Ref{{Number: 1, Step: "main"}}, 2
	_, model := d.run(d.step(export, "run-l2"), says("Exported."))
	require.Len(t, model.requests[0], 3)
	require.Contains(t, model.requests[0][2].Content, quoteDelimiter("run-l2")+" main\nA frog.\n")
	require.Contains(t, model.requests[0][2].Content, "2 earlier texts are left out")
	require.NotEqual(t, quoteDelimiter("run-l1"), quoteDelimiter("run-l2"), "the delimiter cannot be known before")

	export.History = []pipeline.Ref{{Number: 7, Step: "main"}}
	_, err := d.step(export, "run-l3").Spec(t.Context(), d.store)
	require.ErrorIs(t, err, artifact.ErrNotFound)
	require.ErrorContains(t, err, "read the text of step main")
}

// An interrupted step continues from its journal. Another attempt has the same number, another
// launch the next one.
func TestStep_resumes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := d.step(launch("main", 0), "run-l1")
	r, model, err := d.attempt(s, writes("draft.md", "a frog"))
	require.ErrorIs(t, err, errOver)
	require.Equal(t, 1, r.Step)
	kept := model.requests[1]

	s.Attempt, s.Spent = 2, r.Usage
	r, model, err = d.attempt(s)
	require.ErrorIs(t, err, errOver)
	require.Equal(t, 1, r.Step)
	require.Equal(t, kept, model.requests[0])

	later := launch("main", 1)
	later.ResumeFrom = "run-l1"
	r, model = d.run(d.step(later, "run-l2"), says("Written."))
	require.Equal(t, kept, model.requests[0])
	require.Equal(t, 2, r.Step)
	require.Equal(t, 2, d.outcome(r).Iterations, "those of the launch before count")
	require.Equal(t, "a frog", string(d.get("steps/002-main/workspace/draft.md")))
}

// If the workflow did not learn that a step has ended, the step's commit is used, with the number
// of the step.
func TestStep_resumesACommit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	committed, _ := d.run(d.step(launch("main", 0), "run-l1"), says("Written."))
	later := launch("main", 0)
	later.ID, later.ResumeFrom = "l2", "run-l1"
	r, model := d.run(d.step(later, "run-l2"))
	require.Empty(t, model.requests)
	require.Equal(t, 1, r.Step)
	require.Equal(t, committed.Commit.Token, r.Commit.Token)
	require.Zero(t, r.Usage, "its event has counted it")
}

func (d *desk) get(name string) []byte {
	d.t.Helper()
	data, err := d.store.Get(d.t.Context(), d.layout.File(name))
	require.NoError(d.t, err, name)
	return data
}

// An abandoned step has a last_action.json with the error.
func TestAnAbandonedStep(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	spec, err := d.step(launch("main", 0), "run-l1").Spec(t.Context(), d.store)
	require.NoError(t, err)
	ports := d.ports(&script{})
	r, err := step.Run(t.Context(), ports, spec)
	require.ErrorIs(t, err, errOver)
	ports.Now = func() time.Time { return now.Add(-time.Second) } // a clock that is behind
	cause := artifact.Error{Type: "AuthFailed", Message: "no such key"}
	require.NoError(t, step.Abandon(t.Context(), ports, spec, r, cause))
	require.Equal(t, artifact.LastAction{
		AgentID: "agent_a", Action: "none", Timestamp: now.Add(-time.Second), StepNumber: 1, Error: &cause,
	}, read[artifact.LastAction](d, "steps/001-main/last_action.json"))
	require.NotContains(t, d.keys(), "steps/001-main/action.json")

	before := d.keys()
	require.NoError(t, step.Abandon(t.Context(), ports, spec, step.Result{}, cause))
	require.Equal(t, before, d.keys(), "one that never had a number has no directory")
}

// No two steps have the same number, even with other step names or after a reset of
// the workflow.
func TestReserve(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r, _ := d.run(d.step(launch("main", 0), "run-l1"), says("x"))
	require.Equal(t, 1, r.Step)
	r, _ = d.run(d.step(launch("export", 0), "reset-l1"), says("y"))
	require.Equal(t, 2, r.Step)
	r, _ = d.run(d.step(launch("main", 0), "third-l1"), says("z"))
	require.Equal(t, 3, r.Step)
	require.Contains(t, d.keys(), "steps/003-main/answer.json")

	// An attempt finds the number that an earlier one reserved.
	require.NoError(t, artifact.CreateJSON(t.Context(), d.store, d.layout.File("claims/004.json"), artifact.Claim{Token: "run-l4"}))
	require.NoError(t, artifact.CreateJSON(t.Context(), d.store, d.layout.File("claims/005.json"), artifact.Claim{Token: "run-l5"}))
	r, _ = d.run(d.step(launch("lint", 3), "run-l5"), says("x"))
	require.Equal(t, 5, r.Step)
	r, _ = d.run(d.step(launch("lint", 3), "run-l4"), says("y"))
	require.Equal(t, 4, r.Step)

	d.put(d.layout.File("claims/006.json"), []byte("{"))
	_, err := d.step(launch("main", 5), "run-l6").Spec(t.Context(), d.store)
	require.ErrorContains(t, err, "claims/006.json\" is malformed")
}
