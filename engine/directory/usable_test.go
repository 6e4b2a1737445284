package directory_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/directory"
)

// What would break a step off at its end is found before it begins.
func TestUsable(t *testing.T) {
	t.Parallel()
	require.NoError(t, directory.Usable(newSession(t, nil).root, "a"))
	for _, name := range []string{
		".conclave-locks", ".conclave-tmp", "agents", "agents/a", "blobs", "blobs/sha256", "journal",
	} {
		s := newSession(t, map[string]string{name + "/": ""})
		require.NoError(t, directory.Usable(s.root, "a"), name)
		require.NoError(t, os.Remove(s.path(name)))
		require.NoError(t, syscall.Mkfifo(s.path(name), 0o644))
		var unreadable *directory.UnreadableError
		require.ErrorAs(t, directory.Usable(s.root, "a"), &unreadable, name)
		require.Equal(t, name, unreadable.Path)
		require.NoError(t, os.Remove(s.path(name)))
		s.link(t.TempDir(), name)
		require.ErrorAs(t, directory.Usable(s.root, "a"), &unreadable, name)
	}
	s := newSession(t, map[string]string{"agents/a/last_action.json/": ""})
	require.ErrorContains(t, directory.Usable(s.root, "a"), "agents/a/last_action.json is a directory: remove it")
	require.NoError(t, directory.Usable(s.root, "b"))
}
