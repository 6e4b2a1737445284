package start

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
	"conclave/workflows"
)

const graph = `start: main
agents: [{id: a, backend: {type: offline}}]
steps:
  - {name: main, destinations: [lint], next: export}
  - {name: lint, kind: tools, calls: [{tool: list_files}]}
  - {name: export}
`

func TestValidate(t *testing.T) {
	s := newShell(t)
	s.File("p.yaml", graph)
	code, stdout, stderr := s.Run("pipeline", "validate", "p.yaml")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "p.yaml: ok, 3 steps: main (agent, start), lint (tools), export (agent)\n", stdout)
	require.Empty(t, stderr)

	_, stdout, _ = s.Run("pipeline", "validate", "--graph", "p.yaml")
	require.True(t, strings.HasPrefix(stdout, "flowchart TD\n"), stdout)

	s.File("island.yaml", graph+"  - {name: island}\n")
	code, _, stderr = s.Run("pipeline", "validate", "island.yaml")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stderr, "warning: island.yaml:7:5: steps[3]: no run reaches the step \"island\"")

	var v checkedPipeline
	_, stdout, _ = s.Run("pipeline", "validate", "--json", "--graph", "island.yaml")
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.True(t, v.Valid)
	require.Equal(t, 7, v.Warnings[0].Line)
	require.Contains(t, v.Graph, "s_island")

	s.File("args.yaml", strings.Replace(graph, "{tool: list_files}", "{tool: list_files, args: {pth: x}}", 1))
	code, _, stderr = s.Run("pipeline", "validate", "args.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `args.yaml:5:64: steps[1].calls[0].args: list_files has no argument "pth"; did you mean "path"?`)

	s.File("program.yaml", strings.Replace(graph, "- {name: export}", "- {name: export, mcp_servers: [{name: web, command: no-such-mcp}, {name: sh, command: sh}]}", 1))
	code, _, stderr = s.Run("pipeline", "validate", "program.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `program.yaml:6:34: steps[2].mcp_servers[0]: MCP server "web": there is no program "no-such-mcp" in PATH; install it, or give its absolute path`)
	s.File("both.yaml", strings.Replace(graph, "- {name: export}", "- {name: export, destinations: [mian], mcp_servers: [{name: web, command: no-such-mcp}]}", 1))
	_, _, stderr = s.Run("pipeline", "validate", "both.yaml")
	require.Contains(t, stderr, `"mian" is not a step`)
	require.Contains(t, stderr, `there is no program "no-such-mcp" in PATH`)
	code, _, stderr = s.Run("pipeline", "run", "program.yaml", "q")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, `agent a: MCP server "web": there is no program "no-such-mcp" in PATH`)

	code, _, stderr = s.Run("pipeline", "validate", "--run", "r", "p.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "add --graph")

	s.File("wrong.yaml", strings.Replace(graph, "next: export", "next: exprot", 1))
	code, stdout, _ = s.Run("pipeline", "validate", "--json", "wrong.yaml")
	require.Equal(t, cli.ExitUsage, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.False(t, v.Valid)
	require.Equal(t, 4, v.Problems[0].Line)
	s.StartedNothing()
}

// All errors are reported before anything starts.
func TestRun_refusesBeforeStarting(t *testing.T) {
	s := newShell(t)
	s.File("p.yaml", graph)
	s.File("wrong.yaml", strings.Replace(graph, "start: main", "start: man", 1))
	s.File("keyless.yaml", strings.Replace(graph, "{type: offline}", "{model: m}", 1))
	s.File("server.yaml", strings.Replace(graph, "{type: offline}", "{type: offline}, mcp_servers: [nobody]", 1))
	s.File("price.yaml", "limits: {cost_usd: 1}\n"+strings.Replace(graph, "{type: offline}", "{model: nobody-s, base_url: 'http://127.0.0.1:1/v1'}", 1))
	s.File("team.yaml", "start: d\nsteps: [{name: d, kind: session, team: reviewers}]\n")
	s.File("default.yaml", "start: d\nsteps: [{name: d, kind: session}]\n")
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"no file":            {[]string{"none.yaml", "q"}, "read the pipeline: stat none.yaml"},
		"no request":         {[]string{"p.yaml"}, "run needs REQUEST"},
		"empty request":      {[]string{"p.yaml", " "}, "the request is empty"},
		"request in words":   {[]string{"p.yaml", "two", "words"}, "put the REQUEST in quotes"},
		"large request":      {[]string{"p.yaml", strings.Repeat("x", workflows.MaxInput+1)}, "the REQUEST has"},
		"wrong id":           {[]string{"--id", "../up", "p.yaml", "q"}, "use --session-id"},
		"wrong graph":        {[]string{"wrong.yaml", "q"}, `wrong.yaml:1:8: start: "man" is not a step; did you mean main?`},
		"no key":             {[]string{"keyless.yaml", "q"}, "OPENAI_API_KEY is not set"},
		"no server":          {[]string{"server.yaml", "q"}, `no MCP server "nobody"`},
		"no team":            {[]string{"team.yaml", "q"}, `step d: there is no team "reviewers" here`},
		"no price":           {[]string{"price.yaml", "q"}, "agent a: a limit in dollars is set, but the price of the model nobody-s is unknown"},
		"no key of the team": {[]string{"default.yaml", "q"}, "OPENAI_API_KEY is not set"},
		"a cluster's names":  {[]string{"--address", "127.0.0.1:1", "--offline", "team.yaml", "q"}, "--offline replaces the models of a configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := s.Run(append([]string{"pipeline", "run"}, tt.args...)...)
			require.Equal(t, cli.ExitUsage, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.says)
		})
	}
	code, _, stderr := s.Run("pipeline", "rnu")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "did you mean `conclave pipeline run`?")
	s.StartedNothing()
}

// A session step without a team gets the team of `conclave run`, also offline.
func TestRun_sessionStepsGetATeam(t *testing.T) {
	s := newShell(t)
	s.File("default.yaml", "start: d\nsteps: [{name: d, kind: session}]\n")
	c := &cli.CLI{Queue: workflows.TaskQueue}
	r, err := newPipelineOrder(c, cli.Target{DataDir: t.TempDir()}, &teams.Worker{}, pipelineFlags{offline: true}, "default.yaml", "q")
	require.NoError(t, err)
	require.Len(t, r.file.Steps[0].Config.Agents, 3, "the built-in team")
	require.True(t, r.file.PlaysOffline())
}

// The teams of --worker-config serve the steps that name them, and its default the others.
func TestRun_sessionStepsOfAWorkerConfiguration(t *testing.T) {
	s := newShell(t)
	s.File("p.yaml", "start: d\nsteps: [{name: d, kind: session, next: e}, {name: e, kind: session, team: pair}]\n")
	s.File("worker.yaml", `teams:
  default: {agents: [{id: solo, backend: {type: offline}}]}
  pair: {agents: [{id: left, backend: {type: offline}}, {id: right, backend: {type: offline}}]}
`)
	c := &cli.CLI{Queue: workflows.TaskQueue, WorkerConfig: "worker.yaml"}
	here := cli.Target{DataDir: t.TempDir()}
	w, err := teams.OpenWorker(c, here)
	require.NoError(t, err)
	r, err := newPipelineOrder(c, here, w, pipelineFlags{}, "p.yaml", "q")
	require.NoError(t, err)
	require.Equal(t, "solo", r.file.Steps[0].Config.Agents[0].ID)
	require.Equal(t, "left", r.file.Steps[1].Config.Agents[0].ID)

	_, err = newPipelineOrder(c, here, &teams.Worker{}, pipelineFlags{}, "p.yaml", "q")
	require.ErrorContains(t, err, `step e: there is no team "pair" here, only "default"; give`)
}

func TestPrintResult(t *testing.T) {
	t.Parallel()
	path := "s3://b/pipelines/p1/steps/001-main/answer.json"
	for name, tt := range map[string]struct {
		result         acts.Result
		code           int
		stdout, stderr string
	}{
		"completed": {
			result: acts.Result{ID: "p1", Status: "completed", Final: "Done.\x1b[2J", FinalPath: &path, Transitions: 3, Trace: make([]pipeline.TraceEntry, 4)},
			stdout: "Done.\n", stderr: "completed · 3 transitions · no tokens\nall steps and files: conclave pull p1 DIR",
		},
		"out of calls": {result: acts.Result{ID: "p1", Status: "max_iterations"}, stderr: "max iterations, without a text · 0 transitions"},
		"failed": {
			result: acts.Result{
				ID: "p1", Status: "error", Error: &artifact.Error{Type: "AuthFailed", Message: "no such key"},
				Trace: []pipeline.TraceEntry{{Step: "main", Error: &pipeline.Failure{}}},
			},
			code: cli.ExitNoAnswer, stderr: "pipeline run p1 failed in step main: no such key",
		},
		"cancelled": {result: acts.Result{ID: "p1", Status: "cancelled"}, code: cli.ExitNoAnswer, stderr: "was cancelled"},
		"refused": {
			result: acts.Result{ID: "p1", Status: "error", Error: &artifact.Error{Type: activities.ConfigInvalid, Message: "no start"}},
			code:   cli.ExitUsage, stderr: "no start",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			c := &cli.CLI{Stdout: &out, Stderr: &errs, Queue: workflows.TaskQueue}
			require.Equal(t, tt.code, stage.Report(c, pipelineReporter{}.PrintResult(t.Context(), &cli.Connection{CLI: c}, runs.Run{Kind: PipelineKind(), Offline: true}, tt.result)))
			require.Equal(t, tt.stdout, out.String())
			require.Contains(t, errs.String(), tt.stderr)
			require.Contains(t, errs.String(), offlineNote)

			out.Reset()
			c.Automation = true
			require.Equal(t, tt.code, stage.Report(c, pipelineReporter{}.PrintResult(t.Context(), &cli.Connection{CLI: c}, runs.Run{}, tt.result)))
			var r acts.Result
			require.NoError(t, json.Unmarshal(out.Bytes(), &r))
			require.Equal(t, tt.result.Status, r.Status)
		})
	}
}

// A run that reached a limit of its own cannot be retried.
func TestLimited(t *testing.T) {
	t.Parallel()
	spent := &artifact.Error{Type: pipeline.BudgetSpent, Message: "the run spent $2"}
	of := func(message string) []pipeline.TraceEntry {
		return []pipeline.TraceEntry{{Step: "a", Error: &pipeline.Failure{Message: message}}}
	}
	require.True(t, hitLimit(acts.Result{Status: pipeline.Failed, Error: spent}))
	require.True(t, hitLimit(acts.Result{Status: pipeline.Failed, Error: spent, Trace: of("a spent $2")}))
	require.False(t, hitLimit(acts.Result{Status: pipeline.Failed, Error: spent, Trace: of(spent.Message)}))
	require.False(t, hitLimit(acts.Result{Status: pipeline.Cancelled}))
}

func TestStateTable(t *testing.T) {
	t.Parallel()
	s := acts.State{ID: "p1", Request: "A haiku", Status: workflows.Running, Ignored: "say: no text", View: pipeline.View{
		Step: "lint", Stack: []string{"main"}, Transitions: 1,
		Trace: []pipeline.TraceEntry{
			{Step: "decide", Status: pipeline.Failed, Error: &pipeline.Failure{Type: "NoDecision", Message: "nobody answered"}},
			{Number: 1, Step: "main", Status: pipeline.Failed, Error: &pipeline.Failure{Type: "Network", Message: "no line"}},
			{Number: 2, Step: "main", Status: pipeline.CallPending, Action: pipeline.Call, To: "lint", Usage: llm.Usage{InputTokens: 1200}},
		},
	}}
	k := runs.Run{Kind: PipelineKind(), ID: "p1", Started: time.Unix(1, 0), Closed: time.Unix(66, 0), Activities: []cli.Activity{
		{Agent: "lint", Doing: coordination.Doing{Kind: coordination.RunsTool, Since: time.Unix(50, 0), What: "run_command make lint"}},
		{Work: "team", Doing: coordination.Doing{What: "session p1-decide-l2"}},
	}}
	require.Equal(t, strings.TrimPrefix(`
p1 · running · 1:05
  A haiku
  –    decide  error         0 tokens     NoDecision: nobody answered
  001  main    error         0 tokens     Network: no line
  002  main    call pending  1.2k tokens  call lint
  at lint
    0:16 run_command make lint
    team: session p1-decide-l2
  waiting callers: main
  ignored the signal say: no text
  1 transition · no tokens yet`, "\n"), strings.Join(stateTable(s, k, time.Unix(66, 0)), "\n"))
}

func TestAdaptUpdate(t *testing.T) {
	t.Parallel()
	conn := &cli.Connection{CLI: &cli.CLI{Queue: workflows.TaskQueue}}
	k := runs.Run{Kind: PipelineKind(), ID: "p1", Workflow: "p1"}
	u := runs.Update{Name: workflows.RetrySignal, Payload: workflows.Request{}}
	require.NoError(t, pipelineReporter{}.AdaptUpdate(conn, k, &u))
	require.Nil(t, u.Payload)
}

// pipelineOf is a store with a run of a pipeline: main has called lint.
