package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
)

// onlyA is a team that differs from the built-in one.
func onlyA(t *testing.T) config.Team {
	t.Helper()
	team, err := config.Parse("team", []byte(goodTeam), config.Local)
	require.NoError(t, err)
	return resolveModels(team)
}

func TestADataDirectoryKeepsItsDefaultTeam(t *testing.T) {
	newShell(t)
	here := target{dataDir: t.TempDir()}
	_, found, err := here.defaultTeam()
	require.NoError(t, err)
	require.False(t, found, "before dev or worker nobody has said")

	for _, team := range []config.Team{config.Default().Offline(), onlyA(t)} {
		require.NoError(t, here.setDefault(team))
		got, found, err := here.defaultTeam()
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, team.Hash(), got.Hash(), "the last one who serves decides")
	}
	info, err := os.Stat(here.defaultFile())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(here.defaultFile(), []byte("../../etc/passwd\n"), 0o600))
	_, _, err = here.defaultTeam()
	require.ErrorContains(t, err, "conclave dev")
	require.NoError(t, target{cluster: true}.setDefault(onlyA(t)), "a cluster has no directory")
}

func TestWhoPassesByBringsNoDefault(t *testing.T) {
	s := newShell(t)
	s.file("mine.yaml", mixedTeam)
	here := target{dataDir: t.TempDir()}
	var errs bytes.Buffer
	c := &cli{config: "mine.yaml", stderr: &errs}

	require.Equal(t, resolveModels(config.Default()).Hash(), c.passingTeam(here).Hash(), "not that of --config")
	s.file(projectFile, goodTeam)
	require.Equal(t, onlyA(t).Hash(), c.passingTeam(here).Hash(), "that of the directory, as without --config")
	require.NoError(t, here.setDefault(config.Default().Offline()))
	require.Equal(t, config.Default().Offline().Hash(), c.passingTeam(here).Hash(), "that of the one who serves")
	require.Empty(t, errs.String())

	require.NoError(t, os.Remove(here.defaultFile()))
	s.file(projectFile, "agents: []\n")
	team := c.passingTeam(here)
	require.Contains(t, errs.String(), "warning: this worker has no default team")
	teams, err := here.teams(team)
	require.NoError(t, err)
	require.NotContains(t, teams.Named, activities.DefaultTeam, "better none than another one")
	require.Equal(t, here.teamsDir(), teams.Dir)
}

func TestTheDefaultTeamCanBeNamed(t *testing.T) {
	newShell(t)
	here := target{dataDir: t.TempDir()}
	require.NoError(t, here.setDefault(config.Default().Offline()))
	got, err := (&cli{}).session(here, sessionFlags{team: activities.DefaultTeam}, "Why?")
	require.NoError(t, err)
	require.Equal(t, config.Default().Offline().Hash(), got.team.Hash())
}
