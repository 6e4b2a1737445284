package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/activities/tools"
	"conclave/engine/llm"
	"conclave/engine/pipeline"
)

const writing = `
start: main
agents:
  - {id: agent_a, backend: {model: m}, tools: {shell: true}, mcp_servers: [playwright]}
steps:
  - name: main
    kind: agent
    agent: agent_a
    prompt: You write.
    destinations: [lint, decide]
    next: [{when: {status: max_iterations}, to: decide}, {to: lint}]
  - {name: lint, kind: tools, calls: [{tool: run_command, args: {command: make lint}}, {tool: mcp__playwright__browser_close}], next: export}
  - {name: decide, kind: session, team: reviewers}
  - {name: export, history: true, max_iterations: 3}
limits: {max_transitions: 20, max_call_depth: 2}
`

func TestParsePipeline_readsEveryKindOfStep(t *testing.T) {
	t.Parallel()
	p, _, err := ParsePipeline("p.yaml", []byte(writing), Local)
	require.NoError(t, err)
	require.Equal(t, "main", p.Start)
	require.Equal(t, []branch{{When: condition{Status: "max_iterations"}, To: "decide"}, {To: "lint"}}, p.Steps[0].Next)
	require.Equal(t, []branch{{To: "export"}}, p.Steps[1].Next, "a plain name is a rule without a condition")
	require.Equal(t, 50, p.Steps[0].MaxIterations)
	require.Equal(t, map[string]any{"command": "make lint"}, p.Steps[1].Calls[0].Args)
	require.Equal(t, 3, p.Steps[3].MaxIterations)
	require.Equal(t, "stop", p.OnStepFailure)
	player, ok := p.Player(p.Steps[3])
	require.True(t, ok)
	require.Equal(t, "agent_a", player.ID, "the first one by default")

	canonical, err := p.Canonical()
	require.NoError(t, err)
	again, _, err := ParsePipeline("canonical", canonical, Local)
	require.NoError(t, err)
	require.Equal(t, p, again)
	require.Equal(t, p.Hash(), again.Hash())
}

func TestParsePipeline_readsATeamWithinAStep(t *testing.T) {
	t.Parallel()
	p, _, err := ParsePipeline("p.yaml", []byte(`
start: decide
steps:
  - name: decide
    kind: session
    config: {agents: [{id: agent_a, backend: {model: m}}, {id: agent_b, backend: {model: m}}]}
`), Local)
	require.NoError(t, err)
	require.Len(t, p.Steps[0].Config.Agents, 2)
	require.Equal(t, 12, p.Steps[0].Config.Orchestrator.MaxStepsPerAgent, "defaults are set within steps")
	require.Equal(t, Offline, p.Offline().Steps[0].Config.Agents[1].Backend.Type)
	require.Equal(t, OpenAI, p.Steps[0].Config.Agents[1].Backend.Type, "a copy")
}

func TestParsePipeline_warnsOfUnreachableSteps(t *testing.T) {
	t.Parallel()
	text := strings.Replace(writing, "limits:", "  - {name: island, next: beach}\n  - name: beach\nlimits:", 1)
	_, found, err := ParsePipeline("p.yaml", []byte(text), Local)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.EqualError(t, found[0], "p.yaml:15:5: steps[4]: no run reaches the step \"island\": no next or destinations name it")
	require.EqualError(t, found[1], "p.yaml:16:5: steps[5]: no run reaches the step \"beach\": no next or destinations name it")
	_, found, err = ParsePipeline("p.yaml", []byte(writing), Local)
	require.NoError(t, err)
	require.Empty(t, found)
	_, found, err = ParsePipeline("p.yaml", []byte("steps: []"), Local)
	require.Error(t, err)
	require.Empty(t, found, "an invalid pipeline has problems instead")
}

// Package llm lists exactly the tools that package tools opens: steps of kind tools are
// validated before the tools exist.
func TestBuiltin_describesTheTools(t *testing.T) {
	t.Parallel()
	shell := &sandbox.Options{Level: sandbox.Off, Host: sandbox.Host{Level: sandbox.Off}}
	opened, err := tools.Open(t.Context(), t.TempDir(), tools.Set{Files: true, Shell: shell})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	var names []string
	for _, tool := range opened.Tools() {
		names = append(names, tool.Name)
	}
	require.ElementsMatch(t, names, llm.BuiltinNames(true, true))
}

func TestPipelineOffline_keepsTheToolsOfToolsSteps(t *testing.T) {
	t.Parallel()
	text := strings.Replace(writing, "steps:", "  - {id: agent_b, backend: {model: m}, tools: {shell: true}}\nsteps:", 1)
	p, _, err := ParsePipeline("p.yaml", []byte(text), Local)
	require.NoError(t, err)
	require.False(t, p.PlaysOffline())
	offline := p.Offline()
	require.True(t, offline.PlaysOffline())
	require.Equal(t, ShellOn, offline.Agents[0].Tools.Shell)
	require.Len(t, offline.Agents[0].MCPServers, 1)
	require.Equal(t, ShellOff, offline.Agents[1].Tools.Shell, "no tools step uses them")
	require.Equal(t, ShellOn, p.Agents[1].Tools.Shell, "a copy")
	canonical, err := offline.Canonical()
	require.NoError(t, err)
	_, _, err = ParsePipeline("canonical", canonical, Local)
	require.NoError(t, err)
}

func TestMermaid_drawsTheGraph(t *testing.T) {
	t.Parallel()
	p, _, err := ParsePipeline("p.yaml", []byte(writing), Local)
	require.NoError(t, err)
	require.Equal(t, `flowchart TD
    s_main["main<br/>agent · agent_a"]
    s_lint[["lint<br/>tools"]]
    s_decide{{"decide<br/>session"}}
    s_export["export<br/>agent"]
    start((start)) --> s_main
    s_main -->|max_iterations| s_decide
    s_main --> s_lint
    s_main -.-> s_lint
    s_main -.-> s_decide
    s_lint --> s_export
`, p.Mermaid())
}

// testdata/pipelines.txt contains the cases, in the format of broken.txt.
func TestParsePipeline_reportsEveryProblemAtItsPosition(t *testing.T) {
	t.Parallel()
	const file = "testdata/pipelines.txt"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var written strings.Builder
	for _, section := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		text, want, ok := strings.Cut(rest, ">>>\n")
		require.True(t, ok, "no >>> in %s", title)
		p, _, err := ParsePipeline("p.yaml", []byte(text), Local)
		_, ok = errors.AsType[Problems](err)
		require.True(t, ok, title)
		require.Zero(t, p, title)
		if *update {
			written.WriteString("=== " + title + "\n" + text + ">>>\n" + err.Error() + "\n\n")
			continue
		}
		require.Equal(t, strings.TrimSpace(want), err.Error(), title)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(written.String()), 0o644))
	}
}

const outcomes = `start: draft
agents: [{id: a, backend: {model: m}, tools: {shell: true}, mcp_servers: [web]}, {id: b, backend: {model: m}}]
steps:
  - name: draft
    history: last
    max_visits: {count: 3, then: publish}
    limits: {seconds: 60, model_calls: 30, cost_usd: 0.5}
    tools: {files: false}
    mcp_servers: []
    next: lint
  - name: lint
    kind: tools
    agent: b
    tools: {shell: true}
    mcp_servers: [browser]
    calls: [{tool: run_command, args: {command: make lint, timeout_seconds: 60}}, {tool: mcp__browser__close}]
    on_tool_error: fail
    next: [{when: {status: error, exit_code: 2}, to: publish}, {when: {failed: true}, to: draft}, {when: {text_matches: '(?i)warning'}, to: draft}, {to: publish}]
  - {name: publish, history: true}
limits: {seconds: 3600, cost_usd: 2}
`

func TestParsePipeline_readsOutcomesAndLimits(t *testing.T) {
	t.Parallel()
	p, found, err := ParsePipeline("p.yaml", []byte(outcomes), Local)
	require.NoError(t, err)
	require.Empty(t, found)
	draft, lint := p.Steps[0], p.Steps[1]
	require.Equal(t, &visits{Count: 3, Then: "publish"}, draft.MaxVisits)
	require.Equal(t, []int{60, 30}, []int{*draft.Limits.Seconds, *draft.Limits.ModelCalls})
	require.InDelta(t, 2, *p.Limits.CostUSD, 0)
	require.Equal(t, []pipeline.Policy{pipeline.LastTexts, pipeline.HideTexts, pipeline.AllTexts},
		[]pipeline.Policy{draft.History.Policy(), lint.History.Policy(), p.Steps[2].History.Policy()})
	require.Equal(t, "fail", lint.OnToolError)
	require.Equal(t, condition{Status: "error", ExitCode: whole(2)}, lint.Next[0].When)

	player, _ := p.Player(draft)
	require.Empty(t, player.MCPServers, "in place of the agent's")
	require.Equal(t, builtinTools{Shell: ShellOff}, player.Tools)
	player, _ = p.Player(lint)
	require.Equal(t, []MCPServer{{Name: "browser"}}, player.MCPServers)
	require.Equal(t, builtinTools{Files: true, Shell: ShellOn}, player.Tools, "files by default")
	teams := p.Teams()
	require.Len(t, teams, 3, "the agents and both steps")
	require.Equal(t, p.Limits.CostUSD, teams[0].Orchestrator.Budget.MaxCostUSD)
	require.Equal(t, draft.Limits.CostUSD, teams[1].Orchestrator.Budget.MaxCostUSD)
	require.Equal(t, []MCPServer{{Name: "browser"}}, teams[2].Agents[0].MCPServers)
	offline := p.Offline()
	require.Nil(t, offline.Steps[0].Tools)
	require.NotNil(t, offline.Steps[1].MCPServers, "steps without a model work as usual")

	canonical, err := p.Canonical()
	require.NoError(t, err)
	again, _, err := ParsePipeline("canonical", canonical, Local)
	require.NoError(t, err)
	require.Equal(t, p, again)
}

// A session step may limit a team of the worker, but not the number of its own model calls, since
// it makes none.
func TestParsePipeline_limitsATeamOfTheWorker(t *testing.T) {
	t.Parallel()
	step := "start: a\nsteps: [{name: a, kind: session, team: house, limits: {%s}}]\nlimits: {cost_usd: 2}"
	p, _, err := ParsePipeline("p.yaml", fmt.Appendf(nil, step, "seconds: 60, cost_usd: 0.5"), Local)
	require.NoError(t, err)
	require.InDelta(t, 0.5, p.CostLimit(p.Steps[0]), 0)
	require.InDelta(t, 2, p.CostLimit(PipelineStep{}), 0)
	require.Zero(t, Pipeline{}.CostLimit(PipelineStep{}))
	_, _, err = ParsePipeline("p.yaml", fmt.Appendf(nil, step, "model_calls: 9"), Local)
	require.ErrorContains(t, err, "has no meaning for a step of kind session; remove it")
}

// Limits reduce those of a team without changing the original.
func TestTeam_Within(t *testing.T) {
	t.Parallel()
	usd, team := 1.0, Default()
	team.Orchestrator.Budget.MaxCostUSD = &usd
	for _, tt := range []struct {
		seconds, usd float64
		wantSeconds  int
		wantUSD      float64
	}{
		{0, 0, 7200, 1}, {60.9, 0.5, 60, 0.5}, {0.2, 0, 1, 1}, {9000, 5, 7200, 1},
	} {
		within := team.Within(tt.seconds, tt.usd)
		require.Equal(t, tt.wantSeconds, within.Timeouts.OrchestratorTimeoutSeconds)
		require.InDelta(t, tt.wantUSD, *within.Orchestrator.Budget.MaxCostUSD, 0)
	}
	require.InDelta(t, 1, usd, 0)
	require.InDelta(t, 3, *Default().Within(0, 3).Orchestrator.Budget.MaxCostUSD, 0)
	require.Nil(t, Default().Within(60, 0).Orchestrator.Budget.MaxCostUSD)
}

func whole(n int) *int { return &n }

// Existing runs still find their definition by its hash after an upgrade.
func TestPipeline_keepsItsHash(t *testing.T) {
	t.Parallel()
	p, _, err := ParsePipeline("p.yaml", []byte(writing), Local)
	require.NoError(t, err)
	canonical, err := p.Canonical()
	require.NoError(t, err)
	require.Contains(t, string(canonical), `"history":true`)
	for _, key := range []string{"on_tool_error", "max_visits", "cost_usd\":", "exit_code", "text_matches"} {
		require.NotContains(t, string(canonical), key)
	}
	require.Equal(t, "7f61fb14c90368e030babbed86b31b1e6c111ca34172f69e26a67e745412b5eb", p.Hash())
}

// If a person watches the run, a failed step parks it, unless the file says otherwise.
func TestParsePipelineRun_watched(t *testing.T) {
	t.Parallel()
	watched := func(name string, data []byte, reach Reach) (Pipeline, Problems, error) {
		return ParsePipelineRun(name, data, reach, true, nil)
	}
	const steps = "steps: [{name: main, kind: session}]\n"
	for name, test := range map[string]struct {
		parse   func(string, []byte, Reach) (Pipeline, Problems, error)
		content string
		want    string
	}{
		"watched":                   {watched, "start: main\n" + steps, "park"},
		"unwatched":                 {ParsePipeline, "start: main\n" + steps, "stop"},
		"the file says stop":        {watched, "start: main\non_step_failure: stop\n" + steps, "stop"},
		"in a merged mapping":       {watched, "{\n  start: main, on_step_failure: stop, steps: [{name: main, kind: session}]}", "stop"},
		"a text that looks like it": {watched, "start: main\nsteps: [{name: main, kind: session, prompt: 'on_step_failure: stop'}]\n", "park"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, err := test.parse("p.yaml", []byte(test.content), Local)
			require.NoError(t, err)
			require.Equal(t, test.want, p.OnStepFailure)
		})
	}
}

// The models of --model are those of agents that name neither a model nor a server.
func TestParsePipelineRun_models(t *testing.T) {
	t.Parallel()
	const file = `
start: write
agents:
  - id: writer
  - {id: own, backend: {model: mine, type: groq}}
  - {id: warm, backend: {params: {temperature: 1}}}
  - id: third
steps:
  - {name: write, kind: agent}
  - {name: ask, kind: session, config: {agents: [{id: agent_a}, {id: agent_b, backend: {model: mine}}]}}
`
	_, _, err := ParsePipelineRun("p.yaml", []byte(file), Local, false, nil)
	require.ErrorContains(t, err, "agents[0].backend.model: missing; name the model")
	p, _, err := ParsePipelineRun("p.yaml", []byte(file), Local, false, TeamOf([]Backend{{Type: "anthropic", Model: "a"}, {Type: OpenAI, Provider: "house", Model: "b"}}).Agents)
	require.NoError(t, err)
	var got []Backend
	for _, a := range slices.Concat(p.Agents, p.Steps[1].Config.Agents) {
		got = append(got, a.Backend)
	}
	require.Equal(t, []Backend{
		{Type: "anthropic", Model: "a"},
		{Type: "groq", Model: "mine"},
		{Type: OpenAI, Provider: "house", Model: "b", Params: map[string]any{"temperature": int64(1)}},
		{Type: "anthropic", Model: "a"},
		{Type: "anthropic", Model: "a"},
		{Type: OpenAI, Model: "mine"},
	}, got)

	const groq = "start: s\nagents: [{id: a, backend: {type: groq}}]\nsteps: [{name: s, kind: agent}]\n"
	_, _, err = ParsePipelineRun("p.yaml", []byte(groq), Local, false, Default().Agents)
	require.ErrorContains(t, err, "agents[0].backend.model: missing", "a model of another service would be wrong")
}
