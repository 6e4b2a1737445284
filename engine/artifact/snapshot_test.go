package artifact_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

var layout = artifact.InBucket("s1")

func snapshot(t *testing.T, s artifact.Store, dir string) (artifact.Manifest, string, []artifact.Warning) {
	t.Helper()
	w := artifact.OpenWorkingCopy(s, layout, dir, "")
	m, hash, err := w.Seal(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.Check())
	return m, hash, w.Warnings()
}

// requireFiles compares a directory with a manifest: paths, content, links and
// executable bits.
func requireFiles(t *testing.T, want artifact.Manifest, dir string) {
	t.Helper()
	const executable = 0o100
	files := func(m artifact.Manifest) map[string]artifact.File {
		found := map[string]artifact.File{}
		for _, f := range m.Files {
			f.Mode &= executable
			found[f.Path] = f
		}
		return found
	}
	got, _, _ := snapshot(t, openDir(t, t.TempDir()), dir)
	require.Equal(t, files(want), files(got))
}

// workspace has a bit of everything that is kept.
func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "main.go"), "package main\n")
	writeFile(t, filepath.Join(dir, "docs/my notes.txt"), "notes")
	writeFile(t, filepath.Join(dir, "docs/empty"), "")
	writeFile(t, filepath.Join(dir, "docs/same"), "notes")
	writeFile(t, filepath.Join(dir, "docs/peers/x"), "only the top's peers/ is special")
	writeFile(t, filepath.Join(dir, "large"), strings.Repeat("0123456789abcdef", 1<<17))
	writeFile(t, filepath.Join(dir, "run.sh"), "#!/bin/sh\n")
	require.NoError(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	require.NoError(t, os.Symlink("my notes.txt", filepath.Join(dir, "docs/link")))
	require.NoError(t, os.Symlink("../docs", filepath.Join(dir, "docs/loop")))
	require.NoError(t, os.Symlink("not-yet", filepath.Join(dir, "dangling")))
	return dir
}

func TestSnapshotRestoreVerify(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := workspace(t)
	writeFile(t, filepath.Join(dir, "peers/agent1/secret"), "not ours")
	m, hash, warnings := snapshot(t, d, dir)
	require.Empty(t, warnings)

	var paths []string
	for _, f := range m.Files {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{
		"dangling", "docs/empty", "docs/link", "docs/loop", "docs/my notes.txt", "docs/peers/x", "docs/same", "large", "main.go", "run.sh",
	}, paths)
	require.Equal(t, artifact.File{
		Path: "docs/my notes.txt", Mode: 0o644, Size: 5,
		SHA256: "ab5aa97074c454a0632057e704220d9a6678fbf773a0a5806fc09b8173b07309",
	}, m.Files[4])
	require.Equal(t, artifact.File{Path: "docs/link", Mode: 0o777, Link: "my notes.txt"}, m.Files[2])

	loaded, err := artifact.LoadManifest(t.Context(), d, layout, hash)
	require.NoError(t, err)
	require.Equal(t, m, loaded)

	copied := filepath.Join(t.TempDir(), "made/by/restore")
	require.NoError(t, artifact.Restore(t.Context(), d, layout, loaded, copied, false))
	requireFiles(t, m, copied)
	info, err := os.Stat(filepath.Join(copied, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())

	require.NoError(t, artifact.Restore(t.Context(), d, layout, loaded, copied, false), "again, over the first")
	requireFiles(t, m, copied)
	_, again, _ := snapshot(t, d, copied)
	require.Equal(t, hash, again, "the same files give the same manifest")
}

func TestSnapshotOfNothingHasNoHash(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	m, hash, warnings := snapshot(t, d, t.TempDir())
	require.Empty(t, m.Files)
	require.Empty(t, hash)
	require.Empty(t, warnings)
	loaded, err := artifact.LoadManifest(t.Context(), d, layout, "")
	require.NoError(t, err)
	require.Empty(t, loaded.Files)
	require.Empty(t, listAll(t, d, ""))
}

func TestSnapshotLeavesOutWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "kept"), "x")
	writeFile(t, filepath.Join(dir, "latin\xe9"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	for name, target := range map[string]string{
		"absolute": "/etc/passwd", "home": filepath.Join(dir, "kept"), "up": "../x", "sub/up": "../../x",
		"self": "self", "peer": "peers/agent1/x", "here": "sub/..", "through": "here/../../x",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}

	m, _, warnings := snapshot(t, d, dir)
	require.Len(t, m.Files, 2)
	require.Equal(t, "here", m.Files[0].Path)
	require.Equal(t, "kept", m.Files[1].Path)
	var left []string
	for _, w := range warnings {
		left = append(left, w.Path)
		require.NotEmpty(t, w.Problem)
	}
	require.ElementsMatch(t, []string{
		"absolute", "fifo", "home", "latin�", "peer", "self", "sub/up", "through", "up",
	}, left)
}

func TestSnapshotLimits(t *testing.T) {
	t.Parallel()
	sparse := func(path string, size int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, path), "")
			require.NoError(t, os.Truncate(filepath.Join(dir, path), size))
		}
	}
	tests := map[string]struct {
		fill func(*testing.T, string)
		want string
	}{
		"a file": {sparse("big", artifact.MaxFileBytes+1), "bytes in a file"},
		"all files": {func(t *testing.T, dir string) {
			for i := range artifact.MaxBytes/artifact.MaxFileBytes + 1 {
				sparse(fmt.Sprint(i), artifact.MaxFileBytes)(t, dir)
			}
		}, "bytes"},
		"depth": {sparse(strings.Repeat("d/", artifact.MaxDepth)+"x", 0), "names in a path"},
		"count": {func(t *testing.T, dir string) {
			for i := range artifact.MaxFiles + 1 {
				require.NoError(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755))
			}
		}, "files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDir(t, t.TempDir())
			dir := t.TempDir()
			tt.fill(t, dir)
			_, _, err := artifact.OpenWorkingCopy(d, layout, dir, "").Seal(t.Context())
			var limit *artifact.LimitError
			require.ErrorAs(t, err, &limit)
			require.Equal(t, tt.want, limit.What)
			require.Empty(t, listAll(t, d, ""), "nothing is stored of a workspace that is refused")
		})
	}
}

func TestSnapshotRefusesNamesThatCannotBeProjected(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, strings.Repeat("é", 50)), "x")
	_, _, err := artifact.OpenWorkingCopy(d, layout, dir, "").Seal(t.Context())
	var bad *artifact.NameError
	require.ErrorAs(t, err, &bad)
	require.Contains(t, bad.Problem, "shorter name")
}

func TestSnapshotOfUnreadableFiles(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "open"), "x")
	writeFile(t, filepath.Join(dir, "closed"), "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	m, _, warnings := snapshot(t, d, dir)
	require.Len(t, m.Files, 1)
	require.Len(t, warnings, 1)
	require.Equal(t, "closed", warnings[0].Path)
}

// growing is a store under which the workspace changes, as if a process still ran in it.
type growing struct {
	artifact.Store
	grow func()
}

func (g growing) Exists(ctx context.Context, key string) (bool, error) {
	g.grow()
	return g.Store.Exists(ctx, key)
}

func TestSnapshotStoresWhatItHashed(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "log"), strings.Repeat("a", 2<<20))
	s := growing{Store: d, grow: func() {
		writeFile(t, filepath.Join(dir, "log"), strings.Repeat("b", 2<<20))
	}}
	m, _, err := artifact.OpenWorkingCopy(s, layout, dir, "").Seal(t.Context())
	require.NoError(t, err)
	data, err := d.Get(t.Context(), layout.Blob(m.Files[0].SHA256))
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("a"), 2<<20), data)
}

func TestProject(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	m, _, _ := snapshot(t, d, workspace(t))
	prefix := layout.Step("agent_a", 1, "workspace/")
	for range 2 {
		require.NoError(t, artifact.Project(t.Context(), d, layout, m, prefix))
	}
	require.Equal(t, []string{
		prefix + "docs/empty", prefix + "docs/my=20notes.txt", prefix + "docs/peers/x", prefix + "docs/same",
		prefix + "large", prefix + "main.go", prefix + "run.sh",
	}, listAll(t, d, prefix))
	data, err := os.ReadFile(d.URL(prefix + "docs/my=20notes.txt"))
	require.NoError(t, err)
	require.Equal(t, "notes", string(data))
}
