package snapshot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
)

func openStore(t *testing.T) *artifact.Dir {
	t.Helper()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

// project creates a directory with all kinds of files.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"main.go": "package main\n", "docs/a.md": "same", "docs/b.md": "same", "empty": "", "name\nof\xe9 two lines": "x",
		"large.bin": rand.Text() + strings.Repeat("large", 100<<10),
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "readonly"), []byte("r"), 0o444))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "hollow"), 0o755))
	require.NoError(t, os.Symlink("docs/a.md", filepath.Join(dir, "link")))
	return dir
}

func upload(t *testing.T, u snapshot.Upload) snapshot.Uploaded {
	t.Helper()
	u.Now = time.Now
	done, err := u.Run(t.Context())
	require.NoError(t, err)
	return done
}

// snapshotOf returns the types, permissions and contents of a directory's entries, by path.
func snapshotOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		content := []byte{}
		switch {
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			content = []byte(target)
		case e.Type().IsRegular():
			content, err = os.ReadFile(path)
			require.NoError(t, err)
		}
		if path != dir {
			found[path[len(dir)+1:]] = fmt.Sprintf("%s %q", info.Mode(), content)
		}
		return nil
	}))
	return found
}

func TestUpload_comesBackIdentical(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), project(t)
	var last snapshot.Progress
	done := upload(t, snapshot.Upload{Store: store, Dir: dir, Progress: func(p snapshot.Progress) { last = p }})
	require.Equal(t, 10, done.Files)
	require.Empty(t, done.LeftOut)
	require.Equal(t, last.AllBytes, last.Bytes)
	require.Equal(t, last.AllFiles, last.Files)
	require.Equal(t, done.Bytes-int64(len("same")), done.Sent, "equal contents are sent once")

	for name, trees := range map[string]*snapshot.Trees{
		"kept": snapshot.NewTrees(store, t.TempDir(), 1<<30), "not kept": snapshot.NewTrees(store, "", 0),
	} {
		b, err := trees.Open(t.Context(), done.Hash)
		require.NoError(t, err)
		for i := range 2 {
			to := filepath.Join(t.TempDir(), fmt.Sprint(i))
			require.NoError(t, trees.Place(t.Context(), b, to), name)
			require.Equal(t, snapshotOf(t, dir), snapshotOf(t, to), name)
		}
	}

	b, err := snapshot.Open(t.Context(), store, done.Hash)
	require.NoError(t, err)
	layout := artifact.InBucket("s").On(b)
	for _, f := range b.Manifest().Files {
		if f.SHA256 == "" {
			continue
		}
		content, err := artifact.ReadFile(t.Context(), store, layout, f)
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(dir, f.Path))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, content), f.Path)
	}
}

func TestUpload_sendsOnlyChanges(t *testing.T) {
	t.Parallel()
	store, dir, known := openStore(t), t.TempDir(), filepath.Join(t.TempDir(), "known.json")
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("src/f%02d", i)] = fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000))
	}
	write(t, dir, files)
	u := snapshot.Upload{Store: store, Dir: dir, Known: known}
	first := upload(t, u)
	require.Equal(t, first.Bytes, first.Sent)

	same := upload(t, u)
	require.Zero(t, same.Sent)
	require.Equal(t, first.Hash, same.Hash)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "src/f07"), []byte("changed"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, "src/f08")))
	changed := upload(t, u)
	require.EqualValues(t, len("changed"), changed.Sent)
	b, err := snapshot.Open(t.Context(), store, changed.Hash)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "tree")
	require.NoError(t, snapshot.NewTrees(store, "", 0).Place(t.Context(), b, to))
	require.Equal(t, snapshotOf(t, dir), snapshotOf(t, to))

	elsewhere := openStore(t)
	u.Store = elsewhere
	require.Equal(t, changed.Bytes, upload(t, u).Sent, "another store has nothing yet")
}

func TestUpload_secrets(t *testing.T) {
	t.Parallel()
	store, dir, known := openStore(t), t.TempDir(), filepath.Join(t.TempDir(), "known.json")
	token := "ghp_" + strings.Repeat("aB3", 12)
	write(t, dir, map[string]string{
		".env": "A=1", ".env.example": "A=", "config/prod.yaml": "token: " + token + "\n", "main.go": "package main\n", "key.pem": "x",
		"config/prod.env": "A=1", "kubeconfig": "x", "db.py": "URL = 'postgres://u:" + token[4:20] + "@h'",
	})
	for range 2 { // the second time from memory
		done := upload(t, snapshot.Upload{Store: store, Dir: dir, Known: known})
		require.Equal(t, []string{".env", "config/prod.env", "config/prod.yaml", "db.py", "kubeconfig"}, done.Secrets)
		require.Equal(t, 3, done.Files)
	}
	require.Equal(t, 8, upload(t, snapshot.Upload{Store: store, Dir: dir, Known: known, Secrets: true}).Files)
}

// Verdicts that were remembered by other rules count no longer.
func TestUpload_formerRules(t *testing.T) {
	t.Parallel()
	store, dir, known := openStore(t), t.TempDir(), filepath.Join(t.TempDir(), "known.json")
	write(t, dir, map[string]string{"prod.env": "A=1", "main.go": "package main\n"})
	require.NoError(t, os.Chtimes(filepath.Join(dir, "prod.env"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	upload(t, snapshot.Upload{Store: store, Dir: dir, Known: known})
	data, err := os.ReadFile(known)
	require.NoError(t, err)
	former := strings.NewReplacer(`"format":2`, `"format":1`, `,"secret":true`, "").Replace(string(data))
	require.NoError(t, os.WriteFile(known, []byte(former), 0o600))
	require.Equal(t, []string{"prod.env"}, upload(t, snapshot.Upload{Store: store, Dir: dir, Known: known}).Secrets)
}

// contents returns everything in a store.
func contents(t *testing.T, store artifact.Store) string {
	t.Helper()
	var all strings.Builder
	for key, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		data, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		all.Write(data)
	}
	return all.String()
}

func TestUpload_sendsNoSecret(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), t.TempDir()
	write(t, dir, map[string]string{".env": "PASSWORD=hunter2-hunter2", "a": "x"})
	upload(t, snapshot.Upload{Store: store, Dir: dir})
	require.NotContains(t, contents(t, store), "hunter2")
}

// An interrupted upload leaves no manifest, and the next one succeeds.
func TestUpload_interrupted(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), project(t)
	for allowed := range 8 {
		failing := &killed{Store: store, left: allowed}
		_, err := snapshot.Upload{Store: failing, Dir: dir, Now: time.Now}.Run(t.Context())
		if err == nil {
			break
		}
		for key, err := range store.List(t.Context(), "base/manifests/") {
			require.NoError(t, err)
			require.NotEmpty(t, key)
			requireWhole(t, store, strings.TrimSuffix(filepath.Base(key), ".json"))
		}
	}
	requireWhole(t, store, upload(t, snapshot.Upload{Store: store, Dir: dir}).Hash)
}

// requireWhole requires that every content of a base can be read.
func requireWhole(t require.TestingT, store artifact.Store, hash string) {
	b, err := snapshot.Open(context.Background(), store, hash)
	require.NoError(t, err)
	for _, f := range b.Manifest().Files {
		if f.SHA256 != "" {
			_, err := artifact.ReadFile(context.Background(), store, artifact.Layout{}.On(b), f)
			require.NoError(t, err, f.Path)
		}
	}
}

func TestUpload_unreadable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	store, dir := openStore(t), t.TempDir()
	write(t, dir, map[string]string{"open": "x", "closed": "x"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	done := upload(t, snapshot.Upload{Store: store, Dir: dir})
	require.Equal(t, 1, done.Files)
	require.Equal(t, "closed", done.LeftOut[0].Path)
}

func TestTrees_damagedTree(t *testing.T) {
	t.Parallel()
	store, dir, cache := openStore(t), project(t), t.TempDir()
	done := upload(t, snapshot.Upload{Store: store, Dir: dir})
	trees := snapshot.NewTrees(store, cache, 1<<30)
	b, err := trees.Open(t.Context(), done.Hash)
	require.NoError(t, err)
	require.NoError(t, trees.Place(t.Context(), b, filepath.Join(t.TempDir(), "one")))
	require.NoError(t, os.Remove(filepath.Join(cache, done.Hash, "main.go")))
	to := filepath.Join(t.TempDir(), "two")
	require.NoError(t, trees.Place(t.Context(), b, to))
	require.Equal(t, snapshotOf(t, dir), snapshotOf(t, to))
}

// Writing to a copy changes neither the kept tree nor another copy.
func TestTrees_noHardLinks(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), project(t)
	done := upload(t, snapshot.Upload{Store: store, Dir: dir})
	trees := snapshot.NewTrees(store, t.TempDir(), 1<<30)
	b, err := trees.Open(t.Context(), done.Hash)
	require.NoError(t, err)
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	require.NoError(t, trees.Place(t.Context(), b, one))
	f, err := os.OpenFile(filepath.Join(one, "main.go"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString("changed")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, trees.Place(t.Context(), b, two))
	require.Equal(t, snapshotOf(t, dir), snapshotOf(t, two))
}

func TestTrees_evicts(t *testing.T) {
	t.Parallel()
	store, cache := openStore(t), t.TempDir()
	trees := snapshot.NewTrees(store, cache, 1500)
	var hashes []string
	for i := range 3 {
		dir := t.TempDir()
		write(t, dir, map[string]string{"f": fmt.Sprint(i) + strings.Repeat("x", 999)})
		hash := upload(t, snapshot.Upload{Store: store, Dir: dir}).Hash
		b, err := trees.Open(t.Context(), hash)
		require.NoError(t, err)
		require.NoError(t, trees.Place(t.Context(), b, filepath.Join(t.TempDir(), "copy")))
		hashes = append(hashes, hash)
	}
	require.NoDirExists(t, filepath.Join(cache, hashes[0]))
	require.NoDirExists(t, filepath.Join(cache, hashes[1]))
	require.DirExists(t, filepath.Join(cache, hashes[2]))
}

func TestOpen_missing(t *testing.T) {
	t.Parallel()
	store, hash := openStore(t), strings.Repeat("0", 64)
	var missing *snapshot.MissingError
	_, err := snapshot.Open(t.Context(), store, hash)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "conclave upload")
	require.ErrorAs(t, snapshot.Use(t.Context(), store, hash, time.Now), &missing)
	_, err = snapshot.Open(t.Context(), corrupt{store}, hash)
	require.ErrorIs(t, err, artifact.ErrCorrupt)
}

// corrupt is a store that returns a different content for every object.
type corrupt struct{ artifact.Store }

func (corrupt) Get(context.Context, string) ([]byte, error) { return []byte(`{"files":[]}`), nil }

func TestParse(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0a", 32)
	got, err := snapshot.Parse(snapshot.Reference(hash))
	require.NoError(t, err)
	require.Equal(t, hash, got)
	for _, bad := range []string{"", hash, "sha256:", "sha256:" + hash[1:], "sha256:" + strings.ToUpper(hash), "md5:" + hash} {
		_, err := snapshot.Parse(bad)
		require.ErrorContains(t, err, "conclave upload", bad)
	}
}

func TestPromote(t *testing.T) {
	t.Parallel()
	store, dir := openStore(t), project(t)
	done := upload(t, snapshot.Upload{Store: store, Dir: dir})
	trees := snapshot.NewTrees(store, "", 0)
	b, err := trees.Open(t.Context(), done.Hash)
	require.NoError(t, err)
	layout := artifact.InBucket("s").On(b)
	work := filepath.Join(t.TempDir(), "work")
	loan, err := trees.Lend(t.Context(), b, work, false)
	require.NoError(t, err)
	copied := artifact.OpenWorkingCopy(store, layout, work, "")
	copied.Track(loan.Identity, loan.Lent())
	write(t, work, map[string]string{"main.go": "package other\n", "new/file": "new", "new/large": strings.Repeat("y", 300<<10)})
	require.NoError(t, os.Remove(filepath.Join(work, "docs/a.md")))
	require.NoError(t, os.Remove(filepath.Join(work, "link")))
	change, hash, err := copied.Seal(t.Context())
	require.NoError(t, err)
	require.Len(t, change.Files, 3)
	require.Len(t, change.Removed, 2)

	tree, err := artifact.LoadManifest(t.Context(), store, layout, hash)
	require.NoError(t, err)
	promoted, err := snapshot.Promote(t.Context(), store, layout, tree, time.Now)
	require.NoError(t, err)
	next, err := trees.Open(t.Context(), promoted)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "next")
	require.NoError(t, trees.Place(t.Context(), next, to))
	require.Equal(t, snapshotOf(t, work), snapshotOf(t, to))

	same, err := snapshot.Promote(t.Context(), store, layout, b.Manifest(), time.Now)
	require.NoError(t, err)
	require.Equal(t, done.Hash, same)
	plain, err := snapshot.Promote(t.Context(), store, artifact.InBucket("s"), artifact.Manifest{Files: change.Files}, time.Now)
	require.NoError(t, err)
	requireWhole(t, store, plain)
}
