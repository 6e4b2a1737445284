package artifact_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/engine/files/storetest"
)

func cacheOf(t *testing.T, s artifact.Store, maxBytes int64) (artifact.Store, string) {
	t.Helper()
	dir := t.TempDir()
	c, err := artifact.NewCache(s, dir, maxBytes)
	require.NoError(t, err)
	return c, dir
}

func TestCache_isAStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) artifact.Store {
		c, _ := cacheOf(t, openDir(t, t.TempDir()), 1<<20)
		return c
	})
}

func open(t *testing.T, s artifact.Store, key string) string {
	t.Helper()
	body, err := s.Open(t.Context(), key)
	require.NoError(t, err)
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	return string(data)
}

func TestCache_fetchesOnce(t *testing.T) {
	t.Parallel()
	s := &counting{Store: openDir(t, t.TempDir())}
	hash, err := artifact.PutBlob(t.Context(), s, layout, []byte("content"))
	require.NoError(t, err)
	c, dir := cacheOf(t, s, 1<<20)
	for range 3 {
		require.Equal(t, "content", open(t, c, layout.Blob(hash)))
	}
	require.EqualValues(t, 1, s.opened.Load())

	again, err := artifact.NewCache(s, dir, 1<<20)
	require.NoError(t, err)
	require.Equal(t, "content", open(t, again, layout.Blob(hash)), "another process on the same directory")
	require.EqualValues(t, 1, s.opened.Load())

	own, err := artifact.PutBlob(t.Context(), c, layout, []byte("own"))
	require.NoError(t, err)
	require.Equal(t, "own", open(t, c, layout.Blob(own)))
	require.EqualValues(t, 1, s.opened.Load(), "stored content is not fetched")
}

// A cached blob does not exist in sessions that do not have it.
func TestCache_existsAsksTheStore(t *testing.T) {
	t.Parallel()
	c, _ := cacheOf(t, openDir(t, t.TempDir()), 1<<20)
	hash, err := artifact.PutBlob(t.Context(), c, layout, []byte("content"))
	require.NoError(t, err)
	there, err := c.Exists(t.Context(), artifact.InBucket("another").Blob(hash))
	require.NoError(t, err)
	require.False(t, there)
}

func TestCache_verifiesBlobs(t *testing.T) {
	t.Parallel()
	c, dir := cacheOf(t, openDir(t, t.TempDir()), 1<<20)
	hash, err := artifact.PutBlob(t.Context(), c, layout, []byte("content"))
	require.NoError(t, err)
	writeFile(t, filepath.Join(dir, hash[:2], hash), "tampered")
	require.Equal(t, "content", open(t, c, layout.Blob(hash)))
}

func TestCache_unwritableDirectory(t *testing.T) {
	t.Parallel()
	s := openDir(t, t.TempDir())
	hash, err := artifact.PutBlob(t.Context(), s, layout, []byte("content"))
	require.NoError(t, err)
	c, dir := cacheOf(t, s, 1<<20)
	require.NoError(t, os.RemoveAll(dir))
	writeFile(t, dir, "a file in its place")
	require.Equal(t, "content", open(t, c, layout.Blob(hash)))
	_, err = artifact.PutBlob(t.Context(), c, layout, []byte("more"))
	require.NoError(t, err)
}

func TestCache_evicts(t *testing.T) {
	t.Parallel()
	c, dir := cacheOf(t, openDir(t, t.TempDir()), 10_000)
	var last string
	for i := range 30 {
		var err error
		last, err = artifact.PutBlob(t.Context(), c, layout, bytes.Repeat([]byte{byte(i)}, 1000))
		require.NoError(t, err)
	}
	var size int64
	require.NoError(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		if info, err := e.Info(); err == nil && !e.IsDir() {
			size += info.Size()
		}
		return nil
	}))
	require.LessOrEqual(t, size, int64(10_000))
	require.FileExists(t, filepath.Join(dir, last[:2], last), "the newest blob stays")
}

// broken is a store whose streams fail in the middle.
type broken struct{ artifact.Store }

func (b broken) Open(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader("cont"), failing{})), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

func TestCache_dropsPartialBlobs(t *testing.T) {
	t.Parallel()
	d := openDir(t, t.TempDir())
	hash, err := artifact.PutBlob(t.Context(), d, layout, []byte("content"))
	require.NoError(t, err)
	c, dir := cacheOf(t, broken{d}, 1<<20)
	body, err := c.Open(t.Context(), layout.Blob(hash))
	require.NoError(t, err, "the stream behind the cache, with its own failure")
	_, err = io.ReadAll(body)
	require.ErrorContains(t, err, "connection lost")
	require.NoError(t, body.Close())
	require.NoFileExists(t, filepath.Join(dir, hash[:2], hash))
	leftover, err := filepath.Glob(filepath.Join(dir, "fill-*"))
	require.NoError(t, err)
	require.Empty(t, leftover)
}
