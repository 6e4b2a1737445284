//go:build e2e

package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	sessionflow "conclave/workflows/session"
)

// A model server that is not there at the start parks the session within seconds; run without a
// terminal ends with exit code 2, and the session continues when the server is up.
func TestModelServer_startedLate(t *testing.T) {
	t.Parallel()
	at := freeAddress(t)
	model := newModelServer(t, threeRounds())
	model.URL = "http://" + at
	c := newCLI(t)
	team := c.file("team.json", model.team("agent_a", "agent_b", "agent_c"))
	out := c.conclave("run", "--automation", "--config", team, "--session-id", "late", "Who?")
	require.Equal(t, 2, out.code, out.stderr)
	var open sessionflow.Result
	out.lastLine(t, &open)
	require.Equal(t, "parked", open.Status)
	require.Contains(t, out.stdout, "no reply since the start")
	require.Contains(t, out.stdout, at)
	require.Contains(t, out.stderr, "conclave retry late")
	require.Positive(t, open.DurationSeconds)
	require.Contains(t, c.conclave("delete", "--yes", "late").stderr, "session late has not ended: it is parked")
	require.Equal(t, 0, c.conclave("pull", "--verify", "late", filepath.Join(c.home, "pulled")).code)
	last, err := os.ReadFile(filepath.Join(c.home, "pulled/agents/agent_a/last_action.json"))
	require.NoError(t, err)
	require.Contains(t, string(last), `"type": "Outage"`)

	listener, err := net.Listen("tcp", at)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(model.serve)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	require.Equal(t, 0, c.conclave("retry", "late").code)
	out = c.conclave("watch", "late", "--automation")
	require.Equal(t, 0, out.code, out.stderr)
	result := out.result(t, "consensus")
	require.EqualValues(t, 10, result.Cost.ModelCalls)
}

// One model that fails or hangs beside two that have answered holds nobody: the others decide, and the
// result names the agent that they did not wait for.
func TestModelServer_awayBesideOthers(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	for name, replies := range map[string][]reply{
		"fails": slices.Repeat([]reply{fails(http.StatusInternalServerError)}, 100),
		"hangs": {answer("Too late.").during(func() { <-hang })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := newModelServer(t, map[string][]reply{
				"model-a": {answer("Answer A."), vote("agent1", "Mine.")},
				"model-b": {answer("Answer B."), vote("agent1", "Shorter.")},
				"model-c": replies,
			})
			if name == "hangs" {
				t.Cleanup(func() { close(hang) }) // before the server is closed
			}
			c := newCLI(t)
			sections := orchestrator(map[string]any{"disable_injection": true})
			sections["timeout_settings"] = map[string]any{"away_seconds": 1}
			team := c.file("team.json", model.teamWith(sections, "agent_a", "agent_b", "agent_c"))
			out := c.conclave("run", "--automation", "--config", team, "--session-id", "away-"+name, "Who?")
			require.Equal(t, 0, out.code, out.stderr)
			result := out.result(t, "consensus")
			require.Equal(t, []string{"agent_a", "agent_b"}, result.Voters)
			require.Equal(t, []string{"agent_c"}, result.Cut)
			require.Empty(t, result.Failed)
			require.Contains(t, out.stdout, "agent_c is away: the others go on without it until its model is back")
			require.Contains(t, out.stdout, "consensus: agent_a (agent1.1) without agent_c")
		})
	}
}
