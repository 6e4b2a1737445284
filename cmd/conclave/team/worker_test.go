package team

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Sessions that are only started may be for a worker in another process, which
// has the servers; the sandbox is this machine's.
func TestWhoseToolsAreLookedAt(t *testing.T) {
	s := newShell(t)
	s.File("unknown.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [browser]}\n")
	team, _, err := Read("unknown.yaml", 0)
	require.NoError(t, err)
	tools := NewTools()
	require.Error(t, CheckTools(t.Context(), tools, team, ThisProcess))
	require.Error(t, CheckTools(t.Context(), tools, team, ThisWorker))
	require.NoError(t, CheckTools(t.Context(), tools, team, AnyProcess))
	require.NoError(t, CheckTools(t.Context(), tools, team.Offline(), ThisProcess), "the built-in model uses none")
}
