// Package storetest specifies artifact.Store by tests. The tests of every store call
// Run; the port promises only the behaviour tested here.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// Run tests a store. Open returns an empty store and cleans up with t.Cleanup; it is
// called once for every test. The tests run in parallel.
func Run(t *testing.T, open func(t *testing.T) artifact.Store) {
	tests := []struct {
		name string
		test func(*testing.T, artifact.Store)
	}{
		{"get returns the bytes that were put", putGet},
		{"put stores the body from its current position", putFromPosition},
		{"put replaces", putReplaces},
		{"a missing object is not found", notFound},
		{"create fails for a taken key", createOnce},
		{"an empty body is an object", emptyBody},
		{"a large object survives", largeObject},
		{"copy keeps the source", copyObject},
		{"delete succeeds for a free key", deleteTwice},
		{"delete all deletes the named keys only", deleteAll},
		{"delete all takes more keys than fit into a request", deleteMany},
		{"objects have sizes and times", objects},
		{"list yields the keys under a prefix in byte order", listOrder},
		{"list yields more keys than fit on a page", listPages},
		{"a caller can stop a list early", listLeft},
		{"escaped names work as any others", escapedNames},
		{"every method refuses invalid keys", badKeys},
		{"every method fails after the end of its context", endedContext},
		{"url names the object without host and port", urlOfObject},
		{"one of 64 concurrent creates succeeds", createRace},
		{"readers never see a partial object", tornReads},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t))
		})
	}
}

func put(t *testing.T, s artifact.Store, key, body string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, strings.NewReader(body)))
}

func requireObject(t *testing.T, s artifact.Store, key, body string) {
	t.Helper()
	data, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, body, string(data))
}

func requireFree(t *testing.T, s artifact.Store, key string) {
	t.Helper()
	exists, err := s.Exists(t.Context(), key)
	require.NoError(t, err)
	require.False(t, exists, "%s exists", key)
}

func list(t *testing.T, s artifact.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for key, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	return keys
}

func putGet(t *testing.T, s artifact.Store) {
	body := "two\r\nlines\x00\xff"
	put(t, s, "agents/a/001/answer.json", body)
	requireObject(t, s, "agents/a/001/answer.json", body)

	r, err := s.Open(t.Context(), "agents/a/001/answer.json")
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, body, string(data))

	exists, err := s.Exists(t.Context(), "agents/a/001/answer.json")
	require.NoError(t, err)
	require.True(t, exists)
}

func putFromPosition(t *testing.T, s artifact.Store) {
	body := strings.NewReader("head and tail")
	_, err := body.Seek(9, io.SeekStart)
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "object", body))
	requireObject(t, s, "object", "tail")
}

func putReplaces(t *testing.T, s artifact.Store) {
	put(t, s, "status.json", "a long first version")
	put(t, s, "status.json", "second")
	requireObject(t, s, "status.json", "second")
}

func notFound(t *testing.T, s artifact.Store) {
	put(t, s, "agents/a/last_action.json", "{}")
	for _, key := range []string{"missing", "agents/b/missing", "agents/a", "agents/a/last_action.json.x"} {
		_, err := s.Get(t.Context(), key)
		require.ErrorIs(t, err, artifact.ErrNotFound, key)
		_, err = s.Open(t.Context(), key)
		require.ErrorIs(t, err, artifact.ErrNotFound, key)
		require.ErrorIs(t, s.Copy(t.Context(), key, "copy"), artifact.ErrNotFound, key)
		requireFree(t, s, key)
	}
	requireFree(t, s, "copy")
}

func createOnce(t *testing.T, s artifact.Store) {
	require.NoError(t, s.Create(t.Context(), "agents/a/001/step.json", []byte("first")))
	require.ErrorIs(t, s.Create(t.Context(), "agents/a/001/step.json", []byte("second")), artifact.ErrExists)
	require.ErrorIs(t, s.Create(t.Context(), "agents/a/001/step.json", []byte("first")), artifact.ErrExists)
	requireObject(t, s, "agents/a/001/step.json", "first")

	require.NoError(t, s.Delete(t.Context(), "agents/a/001/step.json"))
	require.NoError(t, s.Create(t.Context(), "agents/a/001/step.json", []byte("third")))
	requireObject(t, s, "agents/a/001/step.json", "third")
}

func emptyBody(t *testing.T, s artifact.Store) {
	put(t, s, "dir/empty", "")
	require.NoError(t, s.Create(t.Context(), "dir/created", nil))
	require.NoError(t, s.Copy(t.Context(), "dir/empty", "dir/copied"))
	require.Equal(t, []string{"dir/copied", "dir/created", "dir/empty"}, list(t, s, "dir/"))
	for _, key := range []string{"dir/copied", "dir/created", "dir/empty"} {
		requireObject(t, s, key, "")
	}
}

func largeObject(t *testing.T, s artifact.Store) {
	// Not a multiple of a block size, and without repetition.
	body := make([]byte, 9<<20+17)
	for i := range body {
		body[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	require.NoError(t, s.Put(t.Context(), "blobs/large", bytes.NewReader(body)))
	require.NoError(t, s.Copy(t.Context(), "blobs/large", "blobs/copy"))
	for _, key := range []string{"blobs/large", "blobs/copy"} {
		data, err := s.Get(t.Context(), key)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, data), key)
	}
}

func copyObject(t *testing.T, s artifact.Store) {
	put(t, s, "blobs/sha256/one", "one")
	put(t, s, "agents/a/001/workspace/one.txt", "taken")
	require.NoError(t, s.Copy(t.Context(), "blobs/sha256/one", "agents/a/001/workspace/one.txt"))
	require.NoError(t, s.Copy(t.Context(), "blobs/sha256/one", "agents/a/001/workspace/one.txt"))
	requireObject(t, s, "agents/a/001/workspace/one.txt", "one")

	put(t, s, "agents/a/001/workspace/one.txt", "changed")
	requireObject(t, s, "blobs/sha256/one", "one")
}

func deleteTwice(t *testing.T, s artifact.Store) {
	put(t, s, "dir/gone", "x")
	put(t, s, "dir/stays", "y")
	require.NoError(t, s.Delete(t.Context(), "dir/gone"))
	require.NoError(t, s.Delete(t.Context(), "dir/gone"))
	require.NoError(t, s.Delete(t.Context(), "never/was"))
	require.NoError(t, s.Delete(t.Context(), "dir"), "a prefix is no object")
	requireFree(t, s, "dir/gone")
	requireObject(t, s, "dir/stays", "y")
}

func deleteAll(t *testing.T, s artifact.Store) {
	for _, key := range []string{"s/1/a", "s/1/b/c", "s/10/a", "s/1-a"} {
		put(t, s, key, "x")
	}
	require.NoError(t, s.DeleteAll(t.Context(), nil))
	require.NoError(t, s.DeleteAll(t.Context(), []string{"s/1/b/c", "s/1/never", "s/1/a"}))
	require.NoError(t, s.DeleteAll(t.Context(), []string{"s/1/b/c", "s/1/a"}), "free keys are not errors")
	require.Equal(t, []string{"s/1-a", "s/10/a"}, list(t, s, ""))
	var bad *artifact.NameError
	require.ErrorAs(t, s.DeleteAll(t.Context(), []string{"../outside"}), &bad)
}

func deleteMany(t *testing.T, s artifact.Store) {
	keys := putMany(t, s, 1100)
	put(t, s, "session.json", "x")
	require.NoError(t, s.DeleteAll(t.Context(), keys))
	require.Equal(t, []string{"session.json"}, list(t, s, ""))
}

func objects(t *testing.T, s artifact.Store) {
	before := time.Now().Add(-time.Minute) // clocks differ, and some stores have whole seconds
	put(t, s, "s/1/empty", "")
	put(t, s, "s/1/my=20notes", "12345")
	put(t, s, "s/2/other", "x")
	sizes := map[string]int64{}
	for o, err := range s.Objects(t.Context(), "s/1/") {
		require.NoError(t, err)
		require.WithinRange(t, o.Modified, before, before.Add(time.Hour), o.Key)
		sizes[o.Key] = o.Size
	}
	require.Equal(t, map[string]int64{"s/1/empty": 0, "s/1/my=20notes": 5}, sizes)
	var bad *artifact.NameError
	for _, err := range s.Objects(t.Context(), "no-prefix") {
		require.ErrorAs(t, err, &bad)
	}
}

func endedContext(t *testing.T, s artifact.Store) {
	put(t, s, "object", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"object", "new"} {
		for method, err := range methods(ctx, s, key) {
			require.ErrorIs(t, err, context.Canceled, "%s %q", method, key)
		}
	}
	for _, err := range s.List(ctx, "") {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, []string{"object"}, list(t, s, ""))
	requireObject(t, s, "object", "x")
}

func listOrder(t *testing.T, s artifact.Store) {
	// "-" and "." come before "/": a walk by file names yields another order.
	keys := []string{"Z", "a-b", "a-b.c/x", "a.txt", "a/Y", "a/a", "a/b-c", "a/b/.hidden", "a/b/c", "a0", "b"}
	require.True(t, slices.IsSorted(keys))
	for _, i := range []int{5, 0, 10, 3, 8, 1, 9, 2, 7, 4, 6} {
		put(t, s, keys[i], "x")
	}
	require.Equal(t, keys, list(t, s, ""))
	require.Equal(t, []string{"a/Y", "a/a", "a/b-c", "a/b/.hidden", "a/b/c"}, list(t, s, "a/"))
	require.Equal(t, []string{"a/b/.hidden", "a/b/c"}, list(t, s, "a/b/"))
	require.Empty(t, list(t, s, "a/b/c/"))
	require.Empty(t, list(t, s, "none/"))
}

func listPages(t *testing.T, s artifact.Store) {
	want := putMany(t, s, 1100) // a page of S3 has 1000
	require.Equal(t, want, list(t, s, "ledger/"))
}

// putMany stores objects under ledger/ and returns their keys in order.
func putMany(t *testing.T, s artifact.Store, count int) []string {
	t.Helper()
	keys := make([]string, count)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range keys {
		keys[i] = fmt.Sprintf("ledger/%06d.json", i)
		group.Go(func() error { return s.Put(ctx, keys[i], strings.NewReader("{}")) })
	}
	require.NoError(t, group.Wait())
	return keys
}

func listLeft(t *testing.T, s artifact.Store) {
	for _, key := range []string{"a/1", "a/2", "b/3"} {
		put(t, s, key, "x")
	}
	for key, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		if key == "a/2" {
			break
		}
		require.Equal(t, "a/1", key)
	}
}

func escapedNames(t *testing.T, s artifact.Store) {
	names := []string{
		"my notes.txt", "a=b", "a=20b", "100%", "a+b&c?d#e", "naïve.md", "e\u0301tude.md", "報告/一.txt",
		`back\slash`, "quote\"s'", "tab\tnew\nline", "control\x01", "latin\xe9", "~home", ".env", "-rf", "...",
	}
	var keys []string
	for _, name := range names {
		escaped, err := artifact.EscapePath(name)
		require.NoError(t, err)
		keys = append(keys, "workspace/"+escaped)
		put(t, s, keys[len(keys)-1], name)
	}
	for i, name := range names {
		requireObject(t, s, keys[i], name)
	}
	slices.Sort(keys)
	require.Equal(t, keys, list(t, s, "workspace/"))
	require.NoError(t, s.Copy(t.Context(), "workspace/my=20notes.txt", "copies/=E5=A0=B1"))
	requireObject(t, s, "copies/=E5=A0=B1", "my notes.txt")
	require.Equal(t, []string{"copies/=E5=A0=B1"}, list(t, s, "copies/"))
}

// methods calls every method that takes a key.
func methods(ctx context.Context, s artifact.Store, key string) map[string]error {
	_, get := s.Get(ctx, key)
	_, open := s.Open(ctx, key)
	_, exists := s.Exists(ctx, key)
	return map[string]error{
		"get": get, "open": open, "exists": exists,
		"put":       s.Put(ctx, key, strings.NewReader("y")),
		"create":    s.Create(ctx, key, []byte("y")),
		"copy from": s.Copy(ctx, key, "copy"),
		"copy to":   s.Copy(ctx, "object", key),
		"delete":    s.Delete(ctx, key),
		"deleteAll": s.DeleteAll(ctx, []string{key}),
	}
}

func badKeys(t *testing.T, s artifact.Store) {
	put(t, s, "object", "x")
	var bad *artifact.NameError
	for _, key := range []string{
		"", "/a", "a/", "a//b", ".", "..", "./a", "a/./b", "a/../b", "../a", "a b", "a\\b", "a=b", "a=2eb", "a=00b",
		"a=2Fb", "ä", ".conclave-tmp/x", strings.Repeat("a", 256), strings.Repeat("a/", 500) + "a",
	} {
		for method, err := range methods(t.Context(), s, key) {
			require.ErrorAs(t, err, &bad, "%s %q", method, key)
		}
	}
	for _, prefix := range []string{"a", "/", "a//", "../", "a b/"} {
		for _, err := range s.List(t.Context(), prefix) {
			require.ErrorAs(t, err, &bad, "list %q", prefix)
		}
	}
	require.Equal(t, []string{"object"}, list(t, s, ""))
}

func urlOfObject(t *testing.T, s artifact.Store) {
	url := s.URL("agents/a/001/answer.json")
	require.True(t, strings.HasSuffix(url, "/agents/a/001/answer.json"), url)
	require.NotContains(t, strings.TrimPrefix(url, "s3://"), ":", "neither a host nor a port")
}

func createRace(t *testing.T, s artifact.Store) {
	const racers = 64
	for round := range 3 {
		key := fmt.Sprintf("agents/a/%03d/step.json", round+1)
		var won atomic.Int64
		var winner atomic.Value
		start := make(chan struct{})
		group, ctx := errgroup.WithContext(t.Context())
		for racer := range racers {
			group.Go(func() error {
				<-start
				body := fmt.Sprintf(`{"token": %d}`, racer)
				err := s.Create(ctx, key, []byte(body))
				if errors.Is(err, artifact.ErrExists) {
					return nil
				}
				if err == nil {
					won.Add(1)
					winner.Store(body)
				}
				return err
			})
		}
		close(start)
		require.NoError(t, group.Wait())
		require.EqualValues(t, 1, won.Load(), "winners")
		requireObject(t, s, key, winner.Load().(string))
	}
}

func tornReads(t *testing.T, s artifact.Store) {
	const size, writes = 256 << 10, 20
	put := func(c byte) error {
		return s.Put(t.Context(), "status.json", bytes.NewReader(bytes.Repeat([]byte{c}, size)))
	}
	require.NoError(t, put('a'))
	var writers, readers errgroup.Group
	for w := range 2 {
		writers.Go(func() error {
			for i := range writes {
				if err := put(byte('b' + w*writes + i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var done atomic.Bool
	for range 4 {
		readers.Go(func() error {
			for last := false; !last; {
				last = done.Load()
				data, err := s.Get(t.Context(), "status.json")
				if err != nil {
					return err
				}
				if len(data) != size || bytes.Count(data, data[:1]) != size {
					return fmt.Errorf("read %d bytes, not one version", len(data))
				}
			}
			return nil
		})
	}
	require.NoError(t, writers.Wait())
	done.Store(true)
	require.NoError(t, readers.Wait())
}
