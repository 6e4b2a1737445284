package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

func listOrder(t *testing.T, s artifact.Store) {
	// "-" and "." sort before "/", so a walk by file names yields another order.
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
