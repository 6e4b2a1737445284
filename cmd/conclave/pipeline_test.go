package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/pull"
	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/pipeline"
	pipelineagent "conclave/engine/pipeline/agent"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

const graph = `start: main
agents: [{id: a, backend: {type: offline}}]
steps:
  - {name: main, destinations: [lint], next: export}
  - {name: lint, kind: tools, calls: [{tool: list_files}]}
  - {name: export}
`

func TestPipelineValidate(t *testing.T) {
	s := newShell(t)
	s.file("p.yaml", graph)
	code, stdout, stderr := s.does("pipeline", "validate", "p.yaml")
	require.Equal(t, exitDone, code, stderr)
	require.Equal(t, "p.yaml: ok, 3 steps: main (agent, start), lint (tools), export (agent)\n", stdout)
	require.Empty(t, stderr)

	_, stdout, _ = s.does("pipeline", "validate", "--graph", "p.yaml")
	require.True(t, strings.HasPrefix(stdout, "flowchart TD\n"), stdout)

	s.file("island.yaml", graph+"  - {name: island}\n")
	code, _, stderr = s.does("pipeline", "validate", "island.yaml")
	require.Equal(t, exitDone, code)
	require.Contains(t, stderr, "warning: island.yaml:7:5: steps[3]: no run comes to the step \"island\"")

	var v checkedPipeline
	_, stdout, _ = s.does("pipeline", "validate", "--json", "--graph", "island.yaml")
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.True(t, v.Valid)
	require.Equal(t, 7, v.Warnings[0].Line)
	require.Contains(t, v.Graph, "s_island")

	s.file("never.yaml", strings.Replace(graph, "[{tool: list_files}]", "[{tool: list_files}], next: [{when: {status: max_iterations}, to: main}]", 1))
	code, _, stderr = s.does("pipeline", "validate", "never.yaml")
	require.Equal(t, exitDone, code)
	require.Contains(t, stderr, "warning: never.yaml:5:67: steps[1].next[0]: never fits: a step of kind tools does not end with the status max_iterations")

	s.file("wrong.yaml", strings.Replace(graph, "next: export", "next: exprot", 1))
	code, stdout, _ = s.does("pipeline", "validate", "--json", "wrong.yaml")
	require.Equal(t, exitUsage, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.False(t, v.Valid)
	require.Equal(t, 4, v.Problems[0].Line)
	s.startedNothing()
}

// Everything that is wrong is said before anything starts.
func TestPipelineRunRefuses(t *testing.T) {
	s := newShell(t)
	s.file("p.yaml", graph)
	s.file("wrong.yaml", strings.Replace(graph, "start: main", "start: man", 1))
	s.file("keyless.yaml", strings.Replace(graph, "{type: offline}", "{model: m}", 1))
	s.file("server.yaml", strings.Replace(graph, "{type: offline}", "{type: offline}, mcp_servers: [nobody]", 1))
	s.file("team.yaml", "start: d\nsteps: [{name: d, kind: session, team: reviewers}]\n")
	s.file("default.yaml", "start: d\nsteps: [{name: d, kind: session}]\n")
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"no file":            {[]string{"none.yaml", "q"}, "read the pipeline: stat none.yaml"},
		"no request":         {[]string{"p.yaml"}, "run needs REQUEST"},
		"empty request":      {[]string{"p.yaml", " "}, "the request is empty"},
		"request in words":   {[]string{"p.yaml", "two", "words"}, "put the REQUEST in quotes"},
		"large request":      {[]string{"p.yaml", strings.Repeat("x", drive.MaxQuery+1)}, "the REQUEST has"},
		"wrong id":           {[]string{"--id", "../up", "p.yaml", "q"}, "use --id"},
		"wrong graph":        {[]string{"wrong.yaml", "q"}, `wrong.yaml:1:8: start: "man" is not a step; did you mean main?`},
		"no key":             {[]string{"keyless.yaml", "q"}, "OPENAI_API_KEY is not set"},
		"no server":          {[]string{"server.yaml", "q"}, `no MCP server "nobody"`},
		"no team":            {[]string{"team.yaml", "q"}, `step d: the local stack has no team "reviewers"`},
		"no key of the team": {[]string{"default.yaml", "q"}, "OPENAI_API_KEY is not set"},
		"a cluster's names":  {[]string{"--address", "127.0.0.1:1", "--offline", "team.yaml", "q"}, "--offline replaces the models of a team that is brought along"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := s.does(append([]string{"pipeline", "run"}, tt.args...)...)
			require.Equal(t, exitUsage, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.says)
		})
	}
	code, _, stderr := s.does("pipeline", "rnu")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "did you mean `conclave pipeline run`?")
	s.startedNothing()
}

// A session step without a team of its own has the one that run would use, and
// plays offline, too.
func TestPipelineSessionStepsGetATeam(t *testing.T) {
	s := newShell(t)
	s.file("default.yaml", "start: d\nsteps: [{name: d, kind: session}]\n")
	c := &cli{queue: drive.TaskQueue}
	r, err := c.pipelineRun(target{dataDir: t.TempDir()}, pipelineFlags{offline: true}, "default.yaml", "q")
	require.NoError(t, err)
	require.Len(t, r.file.Steps[0].Config.Agents, 3, "the built-in team")
	require.True(t, r.file.PlaysOffline())
}

func TestPipelineResultsAndExitCodes(t *testing.T) {
	t.Parallel()
	path := "s3://b/pipelines/p1/steps/001-main/answer.json"
	for name, tt := range map[string]struct {
		result         pipelineflow.Result
		code           int
		stdout, stderr string
	}{
		"completed": {
			result: pipelineflow.Result{ID: "p1", Status: "completed", Final: "Done.\x1b[2J", FinalPath: &path, Transitions: 3, Trace: make([]pipeline.Segment, 4)},
			stdout: "Done.\n", stderr: "completed · 3 transitions · no tokens yet\nall steps and files: conclave pull p1 DIR",
		},
		"out of calls": {result: pipelineflow.Result{ID: "p1", Status: "max_iterations"}, stderr: "max iterations, without a text · 0 transitions"},
		"failed": {
			result: pipelineflow.Result{
				ID: "p1", Status: "error", Error: &artifact.Error{Type: "AuthFailed", Message: "no such key"},
				Trace: []pipeline.Segment{{Step: "main", Error: &pipeline.Failure{}}},
			},
			code: exitNoAnswer, stderr: "pipeline run p1 failed in step main: no such key",
		},
		"cancelled": {result: pipelineflow.Result{ID: "p1", Status: "cancelled"}, code: exitNoAnswer, stderr: "was cancelled"},
		"refused": {
			result: pipelineflow.Result{ID: "p1", Status: "error", Error: &artifact.Error{Type: activities.ConfigInvalid, Message: "no start"}},
			code:   exitUsage, stderr: "no start",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			c := &cli{stdout: &out, stderr: &errs, queue: drive.TaskQueue}
			require.Equal(t, tt.code, c.report(c.printPipelineResult(t.Context(), &place{}, known{kind: pipelineflow.Type, offline: true}, tt.result)))
			require.Equal(t, tt.stdout, out.String())
			require.Contains(t, errs.String(), tt.stderr)
			require.Contains(t, errs.String(), offlinePipelineNote)

			out.Reset()
			c.automation = true
			require.Equal(t, tt.code, c.report(c.printPipelineResult(t.Context(), &place{}, known{}, tt.result)))
			var r pipelineflow.Result
			require.NoError(t, json.Unmarshal(out.Bytes(), &r))
			require.Equal(t, tt.result.Status, r.Status)
		})
	}
}

func TestPipelineTable(t *testing.T) {
	t.Parallel()
	s := pipelineflow.State{ID: "p1", Request: "A haiku", Status: drive.Running, View: pipeline.View{
		Step: "lint", Stack: []string{"main"}, Transitions: 1,
		Trace: []pipeline.Segment{
			{Step: "decide", Status: pipeline.Failed, Error: &pipeline.Failure{Type: "NoDecision", Message: "nobody answered"}},
			{Number: 1, Step: "main", Status: pipeline.Failed, Error: &pipeline.Failure{Type: "Network", Message: "no line"}},
			{Number: 2, Step: "main", Status: pipeline.CallPending, Action: pipeline.Call, To: "lint", Usage: llm.Usage{InputTokens: 1200}},
		},
	}}
	k := known{kind: pipelineflow.Type, id: "p1", started: time.Unix(1, 0), closed: time.Unix(66, 0)}
	require.Equal(t, strings.TrimPrefix(`
p1 · running · 1:05
  A haiku
  –    decide  error         0 tokens     NoDecision: nobody answered
  001  main    error         0 tokens     Network: no line
  002  main    call pending  1.2k tokens  call lint
  at lint
  waiting for a step they called: main
  1 transition · no tokens yet`, "\n"), strings.Join(pipelineTable(s, k), "\n"))
}

func TestPipelineRunsTakeNoFinishAndNoAgent(t *testing.T) {
	t.Parallel()
	c := &cli{queue: drive.TaskQueue}
	k := known{kind: pipelineflow.Type, id: "p1", workflow: "p1"}
	require.ErrorContains(t, c.fits(&update{name: drive.FinishSignal}, k), "conclave cancel p1")
	require.ErrorContains(t, c.fits(&update{name: drive.SaySignal, what: "say something to", agent: "a"}, k), "leave out --agent")
	u := update{name: drive.RetrySignal, payload: sessionflow.RetryInput{}}
	require.NoError(t, c.fits(&u, k))
	require.Nil(t, u.payload)
	require.NoError(t, c.fits(&update{name: drive.FinishSignal}, known{}))
}

// pipelineOf is a store with a run of a pipeline: main has called lint.
func pipelineOf(t *testing.T) *place {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	layout := artifact.InPipeline("p1")
	put := func(key string, doc any) { require.NoError(t, artifact.PutJSON(t.Context(), store, key, doc)) }
	put(layout.File("pipeline.json"), acts.File{Request: "A haiku", Owner: activities.Owner{WorkflowID: "p1", FirstRunID: "r1"}})
	put(layout.File("claims/001.json"), artifact.Claim{Token: "l1"})
	for n, step := range map[int]string{1: "main", 2: "lint"} {
		put(layout.Segment(n, step, "step.json"), artifact.Claim{Token: step, StartedAt: time.Unix(1, 0).UTC()})
		data, err := json.Marshal(entryAt{Time: time.Unix(1, 0).UTC(), Entry: loop.Entry{Kind: loop.Opening, Messages: []llm.Message{{Role: llm.User, Content: "A haiku"}}}})
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), layout.Segment(n, step, "transcript.jsonl"), bytes.NewReader(append(data, '\n'))))
	}
	put(layout.Segment(1, "main", "action.json"), artifact.Commit{Token: "main", Kind: pipelineagent.KindCall, Payload: json.RawMessage(`{"text":"a moment","to":"lint","iterations":1}`)})
	put(layout.Segment(2, "lint", "action.json"), artifact.Commit{Token: "lint", Kind: pipelineagent.KindCompleted, Payload: json.RawMessage(`{"text":"clean","iterations":2}`)})
	put(layout.Segment(2, "lint", "answer.json"), artifact.Answer{AgentID: "lint", Answer: "clean", Label: "lint"})
	url := store.URL(layout.Segment(2, "lint", "workspace"))
	put(layout.Segment(2, "lint", "last_action.json"), artifact.LastAction{AgentID: "lint", Action: "completed", StepNumber: 2, WorkspacePath: &url})
	return &place{store: store}
}

func TestPullOfAPipeline(t *testing.T) {
	t.Parallel()
	p, dir := pipelineOf(t), t.TempDir()
	pulledRun := func() (int, string) {
		var out, errs bytes.Buffer
		c := &cli{stdout: &out, stderr: &errs, json: true, queue: drive.TaskQueue}
		return c.report(c.pullFrom(t.Context(), p, "p1", dir, true)), out.String()
	}
	code, stdout := pulledRun()
	require.Equal(t, exitDone, code, stdout)
	var s pull.Summary
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	require.Equal(t, 2, s.Verified.Steps)
	require.NoDirExists(t, filepath.Join(dir, "claims"))
	last, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, last.Close()) })
	action, err := artifact.ReadJSON[artifact.LastAction](t.Context(), last, "steps/002-lint/last_action.json")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "steps/002-lint/workspace"), *action.WorkspacePath)

	require.NoError(t, artifact.PutJSON(t.Context(), last, "steps/002-lint/answer.json", artifact.Answer{Answer: "filthy"}))
	require.NoError(t, artifact.PutJSON(t.Context(), last, "steps/001-main/answer.json", artifact.Answer{Answer: "x"}))
	code, stdout = pulledRun()
	require.Equal(t, exitNoAnswer, code)
	require.Contains(t, stdout, "does not agree with action.json: answer")
	require.Contains(t, stdout, "is there, and action.json commits no text")

	other := answered(t)
	code, _, stderr := pulled(t, cli{}, other, dir, false)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "it holds something else (pipeline.json)")
}

func TestTranscriptOfAPipeline(t *testing.T) {
	t.Parallel()
	p := pipelineOf(t)
	show := func(step string, number int) (int, string, string) {
		var out, errs bytes.Buffer
		c := &cli{stdout: &out, stderr: &errs, queue: drive.TaskQueue}
		return c.report(c.showTranscript(t.Context(), p, wanted{session: "p1", agent: step, step: number})), out.String(), errs.String()
	}
	code, stdout, stderr := show("lint", 0)
	require.Equal(t, exitDone, code, stderr)
	require.Contains(t, stdout, "lint · step 002")
	_, stdout, _ = show("main", 1)
	require.Contains(t, stdout, "A haiku")
	code, _, stderr = show("main", 2)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `has no step "main 002"; it has main 001, lint 002`)
}
