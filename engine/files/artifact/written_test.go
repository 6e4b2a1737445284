package artifact_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// ScanFiles on the written files finds the same changes as a walk of the directory.
func TestWorkingCopy_ScanFiles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	names := []string{
		"a", "b/c", "b/d/e", "empty/now", "build/out", "build/new", "b/skipped.log", "node_modules/x", "peers/agent1/x", "base/x", "nested/.gitignore",
		"nested/kept", "nested/dropped", ".gitignore", ".conclaveignore", "name\n\xff",
	}
	contents := []string{"", "x", "other", "*.log\n", "kept\n", "build/\n"}
	for _, based := range []bool{false, true} {
		d, dir := openDir(t, t.TempDir()), t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
		writeFile(t, filepath.Join(dir, "b/c"), "of the base")
		writeFile(t, filepath.Join(dir, "build/out"), "of the base")
		on := layout
		if based {
			m, _, _ := seal(t, d, dir)
			b, err := artifact.NewBase("base", m, nil)
			require.NoError(t, err)
			on = layout.On(b)
		}
		w := artifact.OpenWorkingCopy(d, on, dir, "", "base")
		scan(t, w)
		for range 300 {
			var written []string
			for range 1 + random.IntN(3) {
				name := names[random.IntN(len(names))]
				writeFile(t, filepath.Join(dir, name), contents[random.IntN(len(contents))])
				written = append(written, name)
			}
			_, err := w.ScanFiles(t.Context(), written)
			require.NoError(t, err)
			found := w.Manifest()
			delta, err := w.ScanStorable(t.Context())
			require.NoError(t, err)
			require.Empty(t, delta, "based=%t %q", based, written)
			require.Equal(t, found, w.Manifest())
		}
	}
}

// In a directory that is ignored although the base has files in it, only those files count.
func TestWorkingCopy_ignoredDirectoryOfTheBase(t *testing.T) {
	t.Parallel()
	d, dir := openDir(t, t.TempDir()), t.TempDir()
	for _, name := range []string{"build/kept", "build/deep/kept", "node_modules/kept"} {
		writeFile(t, filepath.Join(dir, name), "of the base")
	}
	m, _, _ := seal(t, d, dir)
	usual := m.Files[0] // uploads include directories that workspaces ignore
	usual.Path = "node_modules/kept"
	m.Files = append(m.Files, usual)
	b, err := artifact.NewBase("base", m, nil)
	require.NoError(t, err)
	w := artifact.OpenWorkingCopy(d, layout.On(b), dir, "")
	writeFile(t, filepath.Join(dir, ".gitignore"), "build/\n")
	scan(t, w)
	written := []string{"build/kept", "build/new", "build/deep/kept", "build/deep/new", "node_modules/new"}
	for _, name := range written {
		writeFile(t, filepath.Join(dir, name), "changed")
	}
	delta, err := w.ScanFiles(t.Context(), written)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"build/kept", "build/deep/kept", "node_modules/new"}, changed(delta))
	delta, err = w.ScanStorable(t.Context())
	require.NoError(t, err)
	require.Empty(t, delta)
}

// ScanFiles falls back to a walk if a file no longer exists, is not a file or cannot be stored.
func TestWorkingCopy_ScanFiles_walks(t *testing.T) {
	t.Parallel()
	d, dir := openDir(t, t.TempDir()), t.TempDir()
	w := artifact.OpenWorkingCopy(d, layout, dir, "")
	writeFile(t, filepath.Join(dir, "gone"), "x")
	writeFile(t, filepath.Join(dir, "link"), "x")
	scan(t, w)
	require.NoError(t, os.Remove(filepath.Join(dir, "gone")))
	require.NoError(t, os.Remove(filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("target", filepath.Join(dir, "link")))
	delta, err := w.ScanFiles(t.Context(), []string{"link"})
	require.NoError(t, err)
	require.Equal(t, []string{"link"}, changed(delta))
	require.Len(t, delta.Removed, 1, "found by the walk")
	delta, err = w.ScanFiles(t.Context(), []string{"never/there"})
	require.NoError(t, err)
	require.Empty(t, delta)
}
