package artifact_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
)

// counting counts calls to a store.
type counting struct {
	artifact.Store
	asked, stored, opened atomic.Int64
	together              atomic.Int64 // contents of PutBlobs
}

func (c *counting) PutBlobs(ctx context.Context, prefix string, contents []artifact.Content) error {
	c.stored.Add(1)
	c.together.Add(int64(len(contents)))
	return c.Store.PutBlobs(ctx, prefix, contents)
}

func (c *counting) Exists(ctx context.Context, key string) (bool, error) {
	c.asked.Add(1)
	return c.Store.Exists(ctx, key)
}

func (c *counting) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	c.stored.Add(1)
	return c.Store.Put(ctx, key, body)
}

func (c *counting) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	c.opened.Add(1)
	return c.Store.Open(ctx, key)
}

func scan(t *testing.T, w *artifact.WorkingCopy) artifact.Delta {
	t.Helper()
	delta, err := w.Scan(t.Context())
	require.NoError(t, err)
	return delta
}

func changed(d artifact.Delta) []string { return paths(artifact.Manifest{Files: d.Changed}) }

// settle sets the times of files to older than grain.
func settle(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		if e.IsDir() {
			return nil
		}
		return os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour))
	}))
}

func TestWorkingCopy_findsChanges(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	w := artifact.OpenWorkingCopy(d, layout, dir, "")
	require.Empty(t, scan(t, w))

	writeFile(t, filepath.Join(dir, "a"), "one")
	writeFile(t, filepath.Join(dir, "sub/b"), "two")
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "link")))
	require.Equal(t, []string{"a", "link", "sub/b"}, changed(scan(t, w)))
	require.Empty(t, scan(t, w), "nothing has changed")

	writeFile(t, filepath.Join(dir, "a"), "ONE") // the same size, within grain
	require.NoError(t, os.Chmod(filepath.Join(dir, "sub/b"), 0o755))
	require.Equal(t, []string{"a", "sub/b"}, changed(scan(t, w)))

	require.NoError(t, os.Remove(filepath.Join(dir, "a")))
	require.NoError(t, os.Remove(filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("sub/b", filepath.Join(dir, "link")))
	delta := scan(t, w)
	require.Equal(t, []string{"link"}, changed(delta))
	require.Equal(t, []string{"a"}, []string(delta.Removed))
	require.Equal(t, []string{"link", "sub/b"}, paths(w.Manifest()))
}

// Another worker restores the workspace from the deltas alone.
func TestWorkingCopy_Apply(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := workspace(t)
	w := artifact.OpenWorkingCopy(d, layout, dir, "")
	deltas := []artifact.Delta{scan(t, w)}
	writeFile(t, filepath.Join(dir, "main.go"), "package other\n")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "docs")))
	deltas = append(deltas, scan(t, w))

	elsewhere := t.TempDir()
	again := artifact.OpenWorkingCopy(d, layout, elsewhere, "")
	require.NoError(t, again.Apply(t.Context(), deltas...))
	requireFiles(t, w.Manifest(), elsewhere)
	require.Empty(t, scan(t, again), "the scan continues from the applied state")

	m, hash, err := again.Seal(t.Context())
	require.NoError(t, err)
	same, hash2, err := w.Seal(t.Context())
	require.NoError(t, err)
	require.Equal(t, same, m)
	require.Equal(t, hash2, hash)
}

func TestWorkingCopy_storesOnlyNewContent(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	peer := t.TempDir()
	for i := range 50 {
		writeFile(t, filepath.Join(peer, fmt.Sprintf("f%02d", i)), fmt.Sprintf("content %d", i))
	}
	shown, _, _ := seal(t, d, peer)

	s := &counting{Store: d}
	dir := t.TempDir()
	require.NoError(t, shown.Restore(t.Context(), d, layout, dir, false))
	w := artifact.OpenWorkingCopy(s, layout, dir, "")
	w.MarkStored(shown)
	scan(t, w)
	require.Zero(t, s.stored.Load()+s.asked.Load(), "the session has all content")

	settle(t, dir)
	writeFile(t, filepath.Join(dir, "f07"), "changed")
	writeFile(t, filepath.Join(dir, "new"), "new")
	require.Equal(t, []string{"f07", "new"}, changed(scan(t, w)))
	require.EqualValues(t, 2, s.stored.Load())
	require.Zero(t, s.asked.Load(), "small contents are sent at once")
}

func TestWorkingCopy_storesManySmallContentsTogether(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files, bytes             int
		wantStored, wantTogether int64
	}{
		"few":                {files: 31, bytes: 10, wantStored: 31},
		"many":               {files: 32, bytes: 10, wantStored: 1, wantTogether: 32},
		"more than one part": {files: 130, bytes: 64 << 10, wantStored: 3, wantTogether: 128},
		"large":              {files: 40, bytes: 64<<10 + 1, wantStored: 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := &counting{Store: openDir(t, t.TempDir())}, t.TempDir()
			for i := range tt.files {
				writeFile(t, filepath.Join(dir, fmt.Sprintf("f%03d", i)), fmt.Sprintf("%*d", tt.bytes, i))
			}
			writeFile(t, filepath.Join(dir, "same"), fmt.Sprintf("%*d", tt.bytes, 0))
			w := artifact.OpenWorkingCopy(s, layout, dir, "")
			scan(t, w)
			require.Equal(t, tt.wantStored, s.stored.Load())
			require.Equal(t, tt.wantTogether, s.together.Load())

			restored := t.TempDir()
			require.NoError(t, w.Manifest().Restore(t.Context(), s, layout, restored, false))
			again := artifact.OpenWorkingCopy(s, layout, restored, "")
			scan(t, again)
			require.Equal(t, w.Manifest(), again.Manifest())
		})
	}
}

func TestWorkingCopy_ScanStorable(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	dir := t.TempDir()
	w := artifact.OpenWorkingCopy(d, layout, dir, "")
	long := strings.Repeat("é", 50)
	for _, name := range []string{"a", long, "z"} {
		writeFile(t, filepath.Join(dir, name), "x")
	}
	writeFile(t, filepath.Join(dir, "big"), "")
	require.NoError(t, os.Truncate(filepath.Join(dir, "big"), artifact.MaxFileBytes+1))
	delta, err := w.ScanStorable(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a", "z"}, changed(delta))
	require.Len(t, w.Warnings(), 2)
	_, err = w.Scan(t.Context())
	require.Error(t, err)
	_, _, err = w.Seal(t.Context())
	require.Error(t, err)

	require.NoError(t, artifact.OpenWorkingCopy(d, layout, t.TempDir(), "").Apply(t.Context(), delta))
	require.NoError(t, os.Remove(filepath.Join(dir, long)))
	require.NoError(t, os.Truncate(filepath.Join(dir, "big"), 1))
	require.Equal(t, []string{"big"}, changed(scan(t, w)), "the scan continues from the applied state")
	require.Empty(t, w.Warnings())
}

func TestWorkingCopy_removesCopiesFromScratch(t *testing.T) {
	t.Parallel()
	dir, scratch := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "large"), strings.Repeat("a", 2<<20))
	var copies int
	s := growing{Store: openDir(t, t.TempDir()), grow: func() {
		found, err := os.ReadDir(scratch)
		require.NoError(t, err)
		copies += len(found)
	}}
	scan(t, artifact.OpenWorkingCopy(s, layout, dir, scratch))
	require.Equal(t, 1, copies)
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// An unreadable file is removed even if an earlier version was stored.
func TestWorkingCopy_unreadableFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := t.TempDir()
	w := artifact.OpenWorkingCopy(openDir(t, t.TempDir()), layout, dir, "")
	writeFile(t, filepath.Join(dir, "closed"), "x")
	writeFile(t, filepath.Join(dir, "open"), "x")
	scan(t, w)
	require.NoError(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	require.Equal(t, []string{"closed"}, []string(scan(t, w).Removed))
	require.Len(t, w.Warnings(), 1)
	require.Equal(t, []string{"open"}, paths(w.Manifest()))
}

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
	require.NoError(t, m.Restore(t.Context(), store, layout, restored, true))
	require.NoFileExists(t, filepath.Join(restored, "leaving"))
	require.NoError(t, filelock.RemoveTree(restored))
}

func TestAdopt_emptyWorkspace(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	hash, warnings, err := artifact.Adopt(t.Context(), openDir(t, t.TempDir()), layout, root, "")
	require.NoError(t, err)
	require.Empty(t, hash)
	require.Empty(t, warnings)
}
