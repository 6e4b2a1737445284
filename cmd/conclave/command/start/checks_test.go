package start

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	sessionflow "conclave/workflows/session"
)

func TestCheckChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	deciding := config.Default()
	deciding.Orchestrator.Ballot = "checks_decide"
	divided := deciding
	divided.Orchestrator.CoordinationMode = "decomposition"
	for name, tt := range map[string]struct {
		dir  string
		team config.Team
		want string
	}{
		"none":                   {"", config.Default(), ""},
		"a team that runs them":  {dir, deciding, ""},
		"a team of the cluster":  {dir, config.Team{}, ""},
		"no directory":           {dir + "/none", deciding, "name a directory"},
		"a file":                 {file, deciding, "it is a file; name a directory"},
		"a team that runs none":  {dir, config.Default(), "set orchestrator.ballot to checks_shown"},
		"a team of divided work": {dir, divided, "the team runs no checks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkChecks(tt.dir, tt.team)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// --show-checks sets the key of the team, also in the team that is sent to a cluster.
func TestShowChecks(t *testing.T) {
	t.Parallel()
	team := config.Default()
	sent, err := team.Canonical()
	require.NoError(t, err)
	local, cluster, unknown := sessionOrder{team: team}, sessionOrder{team: team, input: sessionflow.Input{Config: sent}}, sessionOrder{}
	require.NoError(t, local.showChecks("checks"))
	require.True(t, local.team.Orchestrator.ShowChecks)
	require.Nil(t, local.input.Config)
	require.NoError(t, cluster.showChecks("checks"))
	require.Contains(t, string(cluster.input.Config), `"show_checks":true`)
	require.ErrorContains(t, local.showChecks(""), "name their directory with --checks DIR")
	require.ErrorContains(t, unknown.showChecks("checks"), "name one with --config FILE")
}
