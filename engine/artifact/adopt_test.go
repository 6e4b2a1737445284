package artifact_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

// What somebody else has left is taken as far as an answer can have it.
func TestAdopt(t *testing.T) {
	t.Parallel()
	store := openDir(t, t.TempDir())
	dir := workspace(t)
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "secret"), "secret")
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "leaving")))
	require.NoError(t, os.Symlink("leaving", filepath.Join(dir, "around")))
	unstorable := strings.Repeat("é", 90)
	writeFile(t, filepath.Join(dir, unstorable), "no key holds its name")
	writeFile(t, filepath.Join(dir, "docs/.tool/log"), "of another program")
	writeFile(t, filepath.Join(dir, ".tool/log"), "of another program")
	writeFile(t, filepath.Join(dir, artifact.IgnoreFile), "!.tool/\n*.sh\n")

	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	hash, warnings, err := artifact.Adopt(t.Context(), store, layout, root, "", ".tool/")
	require.NoError(t, err)
	m, err := artifact.LoadManifest(t.Context(), store, layout, hash)
	require.NoError(t, err)
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Path)
	}
	require.Equal(t, []string{
		artifact.IgnoreFile, "dangling", "docs/empty", "docs/link", "docs/loop", "docs/my notes.txt", "docs/peers/x", "docs/same", "large", "main.go",
	}, names)
	var left []string
	for _, w := range warnings {
		left = append(left, w.Path)
	}
	require.Equal(t, []string{"around", "leaving", unstorable}, left)

	restored := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, artifact.Restore(t.Context(), store, layout, m, restored, true))
	require.NoFileExists(t, filepath.Join(restored, "leaving"))
	require.NoError(t, artifact.RemoveTree(restored))
}

func TestAdoptNothing(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	hash, warnings, err := artifact.Adopt(t.Context(), openDir(t, t.TempDir()), layout, root, "")
	require.NoError(t, err)
	require.Empty(t, hash)
	require.Empty(t, warnings)
}
