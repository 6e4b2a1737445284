//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/pipeline"
)

// A failing check, which uses no model, leads to the repairing agent at most three times.
// The graph shows the path of the run.
func TestPipelineExampleRepair(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := example(t, "repair.yaml")
	out := c.conclave("pipeline", "run", "--offline", "--automation", "--session-id", "repair", file, "A list of three fruits")
	confined(t, out)
	require.Equal(t, 0, out.code, out.stderr)
	r := endOf(t, out)
	require.Equal(t, strings.Repeat("check/completed mend/completed ", 3)+"check/completed report/completed", traced(r))
	require.Equal(t, 2, *r.Trace[0].ExitCode)
	require.True(t, r.Trace[0].Failed)
	require.Contains(t, out.stdout, "mend was entered 3 times, as often as max_visits allows; report takes its place")
	require.Contains(t, c.conclave("status", "repair").stdout, "completed, exit code 2")

	graph := c.conclave("pipeline", "validate", "--graph", "--run", "repair", file)
	require.Equal(t, 0, graph.code, graph.stderr)
	require.Contains(t, graph.stdout, "s_mend[\"mend<br/>agent · 3×\"]")
	require.Contains(t, graph.stdout, "class s_publish unvisited")
	require.Contains(t, graph.stdout, "linkStyle 0,1,3,4 stroke-width:4px")

	// The same pipeline with a file that passes the check, and with a check that fails the
	// step.
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	played := func(old, changed string) string {
		changed = strings.Replace(string(text), old, changed, 1)
		require.NotEqual(t, string(text), changed)
		return traced(endOf(t, c.conclave("pipeline", "run", "--offline", "--automation", c.file("changed.yaml", changed), "A list")))
	}
	require.Equal(t, "check/completed publish/completed", played("test -f fruits.txt ||", "seq 3 >fruits.txt; test -f fruits.txt ||"))
	require.Equal(t, "check/error report/completed", played(
		"- {when: {failed: true}, to: mend}\n      - {to: publish}",
		"- {when: {status: error, exit_code: 2, text_matches: 'is missing'}, to: report}\n      - {to: publish}\n    on_tool_error: fail"))
}

// A rule uses the status of a team as the outcome of its step.
func TestPipelineOutcomeOfATeam(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	out := c.conclave("pipeline", "run", "--automation", c.file("p.yaml", `start: decide
agents: [{id: clerk, backend: {type: offline}}]
steps:
  - name: decide
    kind: session
    config: {agents: [{id: agent_a, backend: {type: offline}}, {id: agent_b, backend: {type: offline}}]}
    next: [{when: {status: consensus}, to: agreed}, {to: split}]
  - {name: agreed}
  - {name: split}
`), "Tabs or spaces?")
	require.Equal(t, 0, out.code, out.stderr)
	r := endOf(t, out)
	require.Equal(t, "decide/completed agreed/completed", traced(r))
	require.Equal(t, "consensus", r.Trace[0].Team)
}

// The limits of a run and of a step in money and time, and the tools of a step, apply.
func TestPipelineLimits(t *testing.T) {
	t.Parallel()
	lost, _, hold := held(says("Lost."))
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("draft.md", "a"), write("draft.md", "b"), write("draft.md", "c"), says("Cheap.")},
		"model-b": {says("Told."), lost},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	file := func(rest string) string {
		// A call has 100 tokens of input and costs half a dollar.
		priced := strings.ReplaceAll(model.pipeline(rest), ", base_url:", ", price_per_million: {input: 5000, output: 0}, base_url:")
		return c.file("p.yaml", priced)
	}

	out := c.conclave("pipeline", "run", "--automation", file(`start: main
steps:
  - {name: main, agent: agent_a, limits: {cost_usd: 0.75}, next: [{when: {status: error}, to: tell}]}
  - {name: tell, agent: agent_b, history: true, tools: {files: false}, next: main}
limits: {cost_usd: 1.25}
`), "A haiku")
	require.Equal(t, 2, out.code)
	r := endOf(t, out)
	require.Equal(t, "main/error tell/completed", traced(r))
	require.Equal(t, pipeline.BudgetSpent, r.Trace[0].Error.Type)
	require.Equal(t, pipeline.BudgetSpent, r.Error.Type)
	require.Contains(t, r.Error.Message, "the run spent $1.5000, and limits.cost_usd is $1.2500")
	require.InDelta(t, 1.5, *r.Usage.TotalUSD, 1e-9)
	require.Contains(t, model.request("model-a", 1), "write_file")
	require.NotContains(t, model.request("model-b", 1), "write_file", "the step has tools of its own")
	require.Contains(t, model.request("model-b", 1), "[main failed, BudgetSpent: ")
	require.NotContains(t, out.stderr, "conclave retry", "a run that has spent its money cannot be continued")

	out = c.conclave("pipeline", "run", "--json", "--session-id", "late", file(`start: main
steps: [{name: main, agent: agent_b}]
limits: {seconds: 1}
`), "A haiku")
	require.Equal(t, 2, out.code)
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &r))
	require.Equal(t, pipeline.TimeOver, r.Error.Type)
	require.Equal(t, "main/cancelled", traced(r))
	require.Contains(t, c.conclave("retry", "late").stderr, "start it again with a higher limit")
}
