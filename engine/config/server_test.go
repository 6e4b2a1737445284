package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

func TestAValueMayStandForThatOfAVariable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"${HOME}": "HOME", "${A_1}": "A_1",
		"$HOME": "", "${HOME}/x": "", "x${HOME}": "", "${}": "", "${1A}": "", "${A B}": "", "": "", "plain": "",
	} {
		name, ok := config.Reference(value)
		require.Equal(t, want, name, value)
		require.Equal(t, want != "", ok, value)
	}
}

func TestAServerIsNamedOrDefined(t *testing.T) {
	t.Parallel()
	require.False(t, config.MCPServer{Name: "a"}.Defines())
	for _, s := range []config.MCPServer{{Command: "x"}, {URL: "http://h/"}, {Args: []string{"x"}}, {Env: map[string]string{"A": ""}}} {
		require.True(t, s.Defines())
	}
}

func TestAClusterNamesServers(t *testing.T) {
	t.Parallel()
	team, err := config.Parse("input config", []byte(`{"agents":[{"id":"agent_a","backend":{"model":"m"},"mcp_servers":["browser",{"name":"docs"}]}]}`), config.Cluster)
	require.NoError(t, err)
	require.Equal(t, []config.MCPServer{{Name: "browser"}, {Name: "docs"}}, team.Agents[0].MCPServers)

	canonical, err := team.Canonical()
	require.NoError(t, err)
	again, err := config.Parse("canonical", canonical, config.Cluster)
	require.NoError(t, err)
	require.Equal(t, team, again)
}
