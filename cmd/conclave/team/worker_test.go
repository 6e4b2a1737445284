package team

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
)

func TestTools_checked(t *testing.T) {
	s := newShell(t)
	s.File("unknown.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [browser]}\n")
	team, err := Read("unknown.yaml", 0)
	require.NoError(t, err)
	here := hall.Target{DataDir: t.TempDir()}
	_, err = Tools(t.Context(), here, team.Offline(), team)
	require.Error(t, err)
	_, err = Tools(t.Context(), here, team.Offline())
	require.NoError(t, err, "the built-in model uses none")
	tools, err := Tools(t.Context(), hall.Target{Cluster: true}, team)
	require.NoError(t, err)
	require.Nil(t, tools, "a cluster's workers have their own")
}
