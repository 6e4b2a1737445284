package team

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Another process, which may have the servers, can run a session that is only started;
// the sandbox is the same for both.
func TestCheckTools_byRunner(t *testing.T) {
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
