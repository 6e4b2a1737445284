//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lost is the notice of an agent whose MCP server was started again.
const lost = "mcp__painter tools was started again"

func painter(t *testing.T) map[string]any {
	t.Helper()
	own, err := os.Executable()
	require.NoError(t, err)
	return map[string]any{"name": "painter", "command": own, "args": []string{serve}}
}

func draws(name string) reply {
	return reply{tool: "mcp__painter__draw", arguments: map[string]any{"name": name}}
}

// An agent is told before its next call that a pause has cost its MCP server the state, once, and only if it had used it.
func TestLostTools(t *testing.T) {
	t.Parallel()
	unused, asked1, hold1 := held(list())
	used, asked2, hold2 := held(list())
	model := newModelServer(t, map[string][]reply{"model-a": {
		list(), unused, list(), draws("a.png"), used, list(), answer("Answer A."), vote("agent1", "Mine."),
	}})
	t.Cleanup(func() { close(hold1); close(hold2) })
	c := newCLI(t, "E2E_API_KEY=very-secret-value")
	run := c.start("run", "--automation", "--session-id", "lost", "--config", c.file("team.yaml", model.armed(painter(t))), "Draw.")
	for i, asked := range []chan struct{}{asked1, asked2} {
		<-asked
		require.Equal(t, 0, c.conclave("pause", "lost").code)
		run.prints(t, []string{"agent_a was suspended", "agent_a was suspended"}[i])
		require.Equal(t, 0, c.conclave("resume", "lost").code)
	}
	require.Equal(t, 0, run.ends(t))
	require.NotContains(t, model.request("model-a", 3), lost, "nothing was lost")
	require.Contains(t, model.request("model-a", 6), lost)
	require.Equal(t, 1, strings.Count(model.request("model-a", 7), lost))
	require.NotContains(t, model.request("model-a", 8), lost, "the next step has lost nothing")
}

// A pipeline's step whose worker was killed is also told of the lost state.
func TestLostTools_ofAPipeline(t *testing.T) {
	t.Parallel()
	used, asked, hold := held(list())
	model := newModelServer(t, map[string][]reply{"model-a": {draws("a.png"), used, says("Drawn.")}})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t, "E2E_API_KEY=very-secret-value")
	server, err := json.Marshal(painter(t))
	require.NoError(t, err)
	file := c.file("pipeline.yaml", `start: main
agents:
  - {id: agent_a, backend: {model: model-a, base_url: '`+model.URL+`/v1'}, tools: {files: true}, mcp_servers: [`+string(server)+`]}
steps:
  - {name: main, agent: agent_a}
`)
	run := c.start("pipeline", "run", "--automation", "--session-id", "p1", file, "Draw.")
	<-asked
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	out := c.conclave("watch", "p1")
	require.Equal(t, 0, out.code)
	require.Equal(t, "Drawn.\n", out.stdout)
	require.Contains(t, model.request("model-a", 3), lost)
	require.Contains(t, model.request("model-a", 3), "drawn with")
	require.Equal(t, 3, model.calls("model-a"))
}

// A scenario's step begins again from its opening or is told of the lost state, as
// meta.yaml says.
func TestLostTools_ofAScenario(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"begin_again", "tell"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			used, asked, hold := held(list())
			report := reply{tool: "report_result", arguments: map[string]any{"status": "pass", "evidence_paths": []string{}, "error": nil, "summary": "Fine."}}
			model := newModelServer(t, map[string][]reply{"model-a": {draws("a.png"), used, draws("a.png"), report}})
			t.Cleanup(func() { close(hold) })
			c := newCLI(t, "E2E_API_KEY=very-secret-value")
			require.NoError(t, os.MkdirAll(filepath.Join(c.home, "shop/scenarios/buy/steps"), 0o755))
			c.file("shop/prd.md", "# Shop\n")
			c.file("shop/scenarios/buy/steps/01-open.md", "# Step 01\n\nOpen the shop.\n")
			c.file("shop/scenarios/buy/meta.yaml", "title: Buy\nsteps: [{id: '01', title: Open, file: 01-open.md}]\non_lost_tools: "+on+"\nrequire_evidence: false\n")
			team := c.file("team.yaml", model.armed(painter(t)))
			run := c.start("scenario", "run", filepath.Join(c.home, "shop"), "buy", "--automation", "--config", team)
			<-asked
			require.Equal(t, 0, c.conclave("scenario", "pause", filepath.Join(c.home, "shop"), "buy").code)
			require.Equal(t, 0, c.conclave("scenario", "resume", filepath.Join(c.home, "shop"), "buy").code)
			require.Equal(t, 0, run.ends(t), run.log.String())
			next := model.request("model-a", 3)
			require.Contains(t, next, lost)
			require.Contains(t, next, "Open the shop.")
			require.Equal(t, on == "tell", strings.Contains(next, "drawn with"), "its conversation before")
		})
	}
}
