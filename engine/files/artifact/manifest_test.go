package artifact_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
)

const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

func TestManifest_untrusted(t *testing.T) {
	t.Parallel()
	file := func(path string) artifact.File {
		return artifact.File{Path: path, Mode: 0o644, Size: 1, SHA256: sumOfX}
	}
	link := func(path, target string) artifact.File { return artifact.File{Path: path, Link: target} }
	big, sized := file("a"), link("a", "b")
	big.Size = artifact.MaxFileBytes + 1
	sized.Size = 1
	tests := map[string][]artifact.File{
		"absolute":            {file("/etc/x")},
		"parent":              {file("../x")},
		"inner parent":        {file("a/../../x")},
		"unclean":             {file("a//b")},
		"empty":               {file("")},
		"nul":                 {file("a\x00b")},
		"directory and link":  {{Path: "a", Dir: true, Link: "b"}},
		"directory with size": {{Path: "a", Dir: true, Size: 1}},
		"too long":            {file(strings.Repeat("a", 256))},
		"too deep":            {file(strings.Repeat("a/", artifact.MaxDepth) + "x")},
		"no content":          {{Path: "a"}},
		"upper-case hash":     {{Path: "a", Size: 1, SHA256: strings.ToUpper(sumOfX)}},
		"hash that is a path": {{Path: "a", Size: 1, SHA256: "../../../other"}},
		"negative size":       {{Path: "a", Size: -1, SHA256: sumOfX}},
		"too big":             {big},
		"link with content":   {sized},
		"link outside":        {link("a", "../x")},
		"absolute link":       {link("a", "/etc")},
		"link to peers":       {link("a", "peers/agent1")},
		"twice":               {file("a"), file("a")},
		"unsorted":            {file("b"), file("a")},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDir(t, t.TempDir())
			require.NoError(t, d.Put(t.Context(), layout.Blob(sumOfX), strings.NewReader("x")))
			m := artifact.Manifest{Files: files}
			require.Error(t, m.Check())
			dir := filepath.Join(t.TempDir(), "dest")
			require.Error(t, m.Restore(t.Context(), d, layout, dir, false))
			require.NoDirExists(t, dir)
			require.Error(t, m.Project(t.Context(), d, layout, "out"))
		})
	}
}

func TestRestore_verifiesContent(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"y", "", "xx"} {
		d := openDir(t, t.TempDir())
		m := artifact.Manifest{Files: []artifact.File{{Path: "a", Mode: 0o644, Size: 1, SHA256: sumOfX}}}
		dir := t.TempDir()
		require.ErrorIs(t, m.Restore(t.Context(), d, layout, dir, false), artifact.ErrNotFound)

		require.NoError(t, d.Put(t.Context(), layout.Blob(sumOfX), strings.NewReader(body)))
		require.ErrorIs(t, m.Restore(t.Context(), d, layout, dir, false), artifact.ErrCorrupt)
		require.NoFileExists(t, filepath.Join(dir, "a"))
	}
}

func TestRestore_staysInItsDirectory(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	require.NoError(t, d.Put(t.Context(), layout.Blob(sumOfX), strings.NewReader("x")))
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "file"), "untouched")
	file := func(path string) artifact.Manifest {
		return artifact.Manifest{Files: []artifact.File{{Path: path, Mode: 0o644, Size: 1, SHA256: sumOfX}}}
	}

	dir := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "dir")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "file")))
	require.Error(t, file("dir/file").Restore(t.Context(), d, layout, dir, false))
	require.NoError(t, file("file").Restore(t.Context(), d, layout, dir, false), "the link is replaced")

	both := file("a/b")
	both.Files = append([]artifact.File{{Path: "a", Link: "elsewhere"}}, both.Files...)
	require.NoError(t, both.Check())
	require.Error(t, both.Restore(t.Context(), d, layout, t.TempDir(), false), "a is a directory and a link")

	data, err := os.ReadFile(filepath.Join(outside, "file"))
	require.NoError(t, err)
	require.Equal(t, "untouched", string(data))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestRestore_readOnly(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	m, _, _ := seal(t, d, workspace(t))
	dir := filepath.Join(t.TempDir(), "agent1")
	require.NoError(t, m.Restore(t.Context(), d, layout, dir, true))
	requireFiles(t, m, dir)
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		if entry.Type() != os.ModeSymlink {
			info, err := entry.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o222, path)
		}
		return nil
	}))
	require.NoError(t, filelock.RemoveTree(dir))
	require.NoDirExists(t, dir)
	require.NoError(t, filelock.RemoveTree(dir), "a missing directory is no error")
}

// RemoveTree removes a link without changing the modes of the directory to which it points.
func TestRemoveTree_link(t *testing.T) {
	t.Parallel()
	victim, link := filepath.Join(t.TempDir(), "victim"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Mkdir(victim, 0o500))
	require.NoError(t, os.Symlink(victim, link))
	require.NoError(t, filelock.RemoveTree(link))
	require.NoFileExists(t, link)
	info, err := os.Stat(victim)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o500), info.Mode().Perm())
}

func TestLoadManifest_verifiesItsHash(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	_, hash, _ := seal(t, d, workspace(t))
	require.NoError(t, d.Put(t.Context(), layout.Blob(hash), strings.NewReader(`{"files": []}`)))
	_, err := artifact.LoadManifest(t.Context(), d, layout, hash)
	require.ErrorIs(t, err, artifact.ErrCorrupt)

	_, err = artifact.LoadManifest(t.Context(), d, layout, sumOfX)
	require.ErrorIs(t, err, artifact.ErrNotFound)
	_, err = artifact.LoadManifest(t.Context(), d, layout, "../../x")
	var bad *artifact.NameError
	require.ErrorAs(t, err, &bad)
}
