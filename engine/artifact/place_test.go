package artifact_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

// In a directory the files of an answer lie as they were made: with modes, and
// with the links that stay among them. Placing them again changes nothing.
func TestProjectIntoADirectory(t *testing.T) {
	t.Parallel()
	work, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(work, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(work, "bin/run me.sh"), []byte("#!/bin/sh\n"), 0o750))
	require.NoError(t, os.Chmod(filepath.Join(work, "bin/run me.sh"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(work, "secret"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(work, "readonly"), []byte("x"), 0o600))
	require.NoError(t, os.Chmod(filepath.Join(work, "readonly"), 0o444))
	require.NoError(t, os.Symlink("bin/run me.sh", filepath.Join(work, "run")))
	require.NoError(t, os.Symlink("../secret", filepath.Join(work, "bin/up")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(work, "outside")))
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	w := artifact.OpenWorkingCopy(store, artifact.InDir(), work, "")
	m, _, err := w.Seal(t.Context())
	require.NoError(t, err)
	require.Len(t, w.Warnings(), 1)

	for range 2 {
		require.NoError(t, artifact.Project(t.Context(), store, artifact.InDir(), m, "agents/a/001/workspace"))
		placed := filepath.Join(dir, "agents/a/001/workspace")
		requireFiles(t, m, placed)
		for name, mode := range map[string]os.FileMode{"bin/run me.sh": 0o750, "secret": 0o600, "readonly": 0o444} {
			info, err := os.Stat(filepath.Join(placed, name))
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), name)
		}
		target, err := os.Readlink(filepath.Join(placed, "bin/up"))
		require.NoError(t, err)
		require.Equal(t, "../secret", target)
		_, err = os.Lstat(filepath.Join(placed, "outside"))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	left, err := os.ReadDir(filepath.Join(dir, ".conclave-tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// What somebody has put in the way leads nowhere else.
func TestProjectIntoADirectoryStaysInside(t *testing.T) {
	t.Parallel()
	work, dir, outside := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "file"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink("file", filepath.Join(work, "link")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents/a/001"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "agents/a/001/workspace")))
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	m, _, err := artifact.OpenWorkingCopy(store, artifact.InDir(), work, "").Seal(t.Context())
	require.NoError(t, err)
	require.Error(t, artifact.Project(t.Context(), store, artifact.InDir(), m, "agents/a/001/workspace"))
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}
