package session

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// asked counts the reads of each key.
type asked struct {
	artifact.Store
	reads map[string]int
}

func (a *asked) Get(ctx context.Context, key string) ([]byte, error) {
	a.reads[key]++
	return a.Store.Get(ctx, key)
}

func (a *asked) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	a.reads[key]++
	return a.Store.Open(ctx, key)
}

func TestMemory_readsOnce(t *testing.T) {
	t.Parallel()
	dir, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = dir.Close() }()
	behind := &asked{Store: dir, reads: map[string]int{}}
	kept := &memory{}
	open := func() artifact.Store { return &remembering{Store: behind, memory: kept, run: "r"} }
	ctx := t.Context()

	_, err = open().Get(ctx, "a/answer.json")
	require.ErrorIs(t, err, artifact.ErrNotFound, "a missing document may be written yet")
	_, err = open().Open(ctx, "a/answer.json")
	require.ErrorIs(t, err, artifact.ErrNotFound)
	require.NoError(t, dir.Create(ctx, "a/answer.json", []byte("read")))
	require.NoError(t, open().Create(ctx, "b/answer.json", []byte("created")))
	require.ErrorIs(t, open().Create(ctx, "a/answer.json", []byte("refused")), artifact.ErrExists)
	require.NoError(t, dir.Create(ctx, "c/often.json", []byte("1")))
	clear(behind.reads)
	for range 3 {
		data, err := open().Get(ctx, "a/answer.json")
		require.NoError(t, err)
		require.Equal(t, "read", string(data))
		data[0] = 'x' // a caller's own copy
		body, err := open().Open(ctx, "b/answer.json")
		require.NoError(t, err)
		data, err = io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, "created", string(data))
		_, err = open().Get(ctx, "c/often.json")
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"a/answer.json": 1, "c/often.json": 3}, behind.reads)
}

// A document above the limit of one, and documents above the limit of all, are read again.
func TestMemory_isBounded(t *testing.T) {
	t.Parallel()
	dir, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = dir.Close() }()
	behind := &asked{Store: dir, reads: map[string]int{}}
	store := &remembering{Store: behind, memory: &memory{docs: map[string][]byte{}, size: maxMemory - 8<<20}}
	require.NoError(t, store.Create(t.Context(), "large/answer.json", make([]byte, 1<<20)))
	for range 2 {
		_, err := store.Get(t.Context(), "large/answer.json")
		require.NoError(t, err)
	}
	require.Equal(t, 2, behind.reads["large/answer.json"])
	first := bytes.Repeat([]byte("f"), 200<<10)
	require.NoError(t, store.Create(t.Context(), "first/answer.json", first))
	for i := range 50 {
		require.NoError(t, store.Create(t.Context(), "n"+strings.Repeat("x", i)+"/answer.json", first))
	}
	data, err := store.Get(t.Context(), "first/answer.json")
	require.NoError(t, err)
	require.Equal(t, first, data)
	require.Equal(t, 1, behind.reads["first/answer.json"], "it was dropped")
}
