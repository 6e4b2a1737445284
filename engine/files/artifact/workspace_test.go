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

	"conclave/engine/files/artifact"
)

var layout = artifact.InBucket("s1")

func seal(t *testing.T, s artifact.Store, dir string) (artifact.Manifest, string, []artifact.Warning) {
	t.Helper()
	w := artifact.OpenWorkingCopy(s, layout, dir, "")
	c, hash, err := w.Seal(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Check(nil))
	return c.Tree(nil), hash, w.Warnings()
}

// requireFiles requires that the paths, contents, links and executable bits in a directory are
// those of a manifest.
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
	got, _, _ := seal(t, openDir(t, t.TempDir()), dir)
	require.Equal(t, files(want), files(got))
}

// workspace returns a directory with all kinds of stored files.
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

func TestWorkspace_sealAndRestore(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := workspace(t)
	writeFile(t, filepath.Join(dir, "peers/agent1/secret"), "not ours")
	m, hash, warnings := seal(t, d, dir)
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
	require.NoError(t, loaded.Restore(t.Context(), d, layout, copied, false))
	requireFiles(t, m, copied)
	info, err := os.Stat(filepath.Join(copied, "run.sh"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())

	require.NoError(t, loaded.Restore(t.Context(), d, layout, copied, false), "again, over the first")
	requireFiles(t, m, copied)
	_, again, _ := seal(t, d, copied)
	require.Equal(t, hash, again, "the same files give the same manifest")
}

func TestSeal_emptyWorkspaceHasNoHash(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	m, hash, warnings := seal(t, d, t.TempDir())
	require.Empty(t, m.Files)
	require.Empty(t, hash)
	require.Empty(t, warnings)
	loaded, err := artifact.LoadManifest(t.Context(), d, layout, "")
	require.NoError(t, err)
	require.Empty(t, loaded.Files)
	require.Empty(t, listAll(t, d, ""))
}

func TestSeal_leavesOutUnstorableEntries(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "kept"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	for name, target := range map[string]string{
		"absolute": "/etc/passwd", "home": filepath.Join(dir, "kept"), "up": "../x", "sub/up": "../../x",
		"self": "self", "peer": "peers/agent1/x", "here": "sub/..", "through": "here/../../x",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}

	m, _, warnings := seal(t, d, dir)
	require.Len(t, m.Files, 2)
	require.Equal(t, "here", m.Files[0].Path)
	require.Equal(t, "kept", m.Files[1].Path)
	var left []string
	for _, w := range warnings {
		left = append(left, w.Path)
		require.NotEmpty(t, w.Problem)
	}
	require.ElementsMatch(t, []string{
		"absolute", "fifo", "home", "peer", "self", "sub/up", "through", "up",
	}, left)
}

func TestSeal_limits(t *testing.T) {
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
				require.NoError(t, os.Symlink("0", filepath.Join(dir, fmt.Sprint(i)))) // quicker than a file or directory
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
			require.Empty(t, listAll(t, d, ""), "a refused workspace stores nothing")
		})
	}
}

func TestSeal_refusesLongNames(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, strings.Repeat("é", 50)), "x")
	_, _, err := artifact.OpenWorkingCopy(d, layout, dir, "").Seal(t.Context())
	var bad *artifact.NameError
	require.ErrorAs(t, err, &bad)
	require.Contains(t, bad.Problem, "shorter name")
}

func TestSeal_unreadableFiles(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "open"), "x")
	writeFile(t, filepath.Join(dir, "closed"), "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	m, _, warnings := seal(t, d, dir)
	require.Len(t, m.Files, 1)
	require.Len(t, warnings, 1)
	require.Equal(t, "closed", warnings[0].Path)
}

// growing is a store whose calls change the workspace, like a running process.
type growing struct {
	artifact.Store
	grow func()
}

func (g growing) Exists(ctx context.Context, key string) (bool, error) {
	g.grow()
	return g.Store.Exists(ctx, key)
}

func TestSeal_storesTheHashedBytes(t *testing.T) {
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
	m, _, _ := seal(t, d, workspace(t))
	prefix := layout.Step("agent_a", 1, "workspace/")
	for range 2 {
		require.NoError(t, m.Project(t.Context(), d, layout, prefix))
	}
	require.Equal(t, []string{
		prefix + "docs/empty", prefix + "docs/my=20notes.txt", prefix + "docs/peers/x", prefix + "docs/same",
		prefix + "large", prefix + "main.go", prefix + "run.sh",
	}, listAll(t, d, prefix))
	data, err := os.ReadFile(d.URL(prefix + "docs/my=20notes.txt"))
	require.NoError(t, err)
	require.Equal(t, "notes", string(data))
}

// A Dir gets modes and links; projecting again changes nothing.
func TestProject_intoADirectory(t *testing.T) {
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
	w := artifact.OpenWorkingCopy(store, artifact.Layout{}, work, "")
	c, _, err := w.Seal(t.Context())
	require.NoError(t, err)
	m := c.Tree(nil)
	require.Len(t, w.Warnings(), 1)

	for range 2 {
		require.NoError(t, m.Project(t.Context(), store, artifact.Layout{}, "agents/a/001/workspace"))
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

func TestProject_followsNoLinkOut(t *testing.T) {
	t.Parallel()
	work, dir, outside := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "file"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink("file", filepath.Join(work, "link")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "agents/a/001"), 0o755))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "agents/a/001/workspace")))
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	m, _, err := artifact.OpenWorkingCopy(store, artifact.Layout{}, work, "").Seal(t.Context())
	require.NoError(t, err)
	require.Error(t, m.Tree(nil).Project(t.Context(), store, artifact.Layout{}, "agents/a/001/workspace"))
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}
