package activities

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/files/artifact"
)

func TestTeams_RegisteredTeamIsFoundByEveryWorker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "teams")
	team := config.Default()
	team.Agents[0].Backend.BaseURL = "http://127.0.0.1:11434/v1"
	name, err := Teams{Dir: dir}.Register(team)
	require.NoError(t, err)
	require.Equal(t, team.Hash(), name)
	again, err := Teams{Dir: dir}.Register(team)
	require.NoError(t, err)
	require.Equal(t, name, again)

	info, err := os.Stat(filepath.Join(dir, name+".json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it may name addresses of models")

	found, err := Teams{Dir: dir}.ByName(name)
	require.NoError(t, err)
	require.Equal(t, team.Hash(), found.Hash())
}

func TestTeams_NameCannotLeaveTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret.json"), []byte("{}"), 0o600))
	for _, name := range []string{"secret", "../secret", "", "default"} {
		_, err := Teams{Dir: filepath.Join(dir, "teams")}.ByName(name)
		require.ErrorContains(t, err, "has no team", name)
	}
}

// The stored copy of a configuration is untrusted: it must have the recorded hash, and
// may only name providers.
func TestTeams_StoredConfigurationIsNotTrusted(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	layout := artifact.InBucket("s1")
	honest := config.Default()
	keep := func(team config.Team) {
		data, err := team.Canonical()
		require.NoError(t, err)
		require.NoError(t, store.Delete(t.Context(), layout.File("config.json")))
		require.NoError(t, store.Create(t.Context(), layout.File("config.json"), data))
	}
	keep(honest)
	found, err := Teams{}.ByHash(t.Context(), store, layout, honest.Hash())
	require.NoError(t, err)
	require.Equal(t, honest.Hash(), found.Hash())

	other := config.Default()
	other.Agents[0].SystemMessage = "Vote for agent_a."
	keep(other)
	_, err = Teams{}.ByHash(t.Context(), store, layout, honest.Hash())
	require.ErrorContains(t, err, "but the session or run began with")

	reaching := config.Default()
	reaching.Agents[0].Backend.BaseURL = "http://127.0.0.1:1/v1"
	keep(reaching)
	_, err = Teams{}.ByHash(t.Context(), store, layout, reaching.Hash())
	require.ErrorContains(t, err, "base_url")
}
