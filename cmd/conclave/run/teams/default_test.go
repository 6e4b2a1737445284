package teams

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
)

// onlyA is a team other than the built-in one.
func onlyA(t *testing.T) config.Team {
	t.Helper()
	team, err := config.Parse("team", []byte(goodTeam), config.Local)
	require.NoError(t, err)
	return (&Worker{}).Resolve(team)
}

func TestDefault(t *testing.T) {
	newShell(t)
	here := cli.Target{DataDir: t.TempDir()}
	_, found, err := Default(here)
	require.NoError(t, err)
	require.False(t, found, "dev or worker has not set it")

	for _, team := range []config.Team{config.Default().Offline(), onlyA(t)} {
		require.NoError(t, setDefault(here, team))
		got, found, err := Default(here)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, team.Hash(), got.Hash(), "the last one who serves decides")
	}
	info, err := os.Stat(defaultFile(here))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(defaultFile(here), []byte("../../etc/passwd\n"), 0o600))
	_, _, err = Default(here)
	require.ErrorContains(t, err, "conclave dev")
	require.NoError(t, setDefault(cli.Target{Cluster: true}, onlyA(t)), "a cluster has no directory")
}

func TestForOthers(t *testing.T) {
	s := newShell(t)
	s.File("mine.yaml", mixedTeam)
	here := cli.Target{DataDir: t.TempDir()}
	var errs bytes.Buffer
	c := &cli.CLI{Config: "mine.yaml", Stderr: &errs}

	require.Equal(t, (&Worker{}).Resolve(config.Default()).Hash(), defaultForOthers(c, here).Hash(), "not that of --config")
	s.File(ProjectFile, goodTeam)
	require.Equal(t, onlyA(t).Hash(), defaultForOthers(c, here).Hash(), "that of the directory, as without --config")
	require.NoError(t, setDefault(here, config.Default().Offline()))
	require.Equal(t, config.Default().Offline().Hash(), defaultForOthers(c, here).Hash(), "that of the one who serves")
	require.Empty(t, errs.String())

	require.NoError(t, os.Remove(defaultFile(here)))
	s.File(ProjectFile, "agents: []\n")
	team := defaultForOthers(c, here)
	require.Contains(t, errs.String(), "warning: this worker has no default team")
	cfg, err := workerConfig(&cli.Connection{CLI: &cli.CLI{}, Target: here}, team)
	require.NoError(t, err)
	require.NotContains(t, cfg.Teams.Named, activities.DefaultTeam, "better none than another one")
	require.Equal(t, registryDir(here), cfg.Teams.Dir)
}
