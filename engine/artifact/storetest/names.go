package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

func listOrder(t *testing.T, s artifact.Store) {
	// In byte order "-" and "." come before "/": a walk by names would get it wrong.
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
	const count = 1100 // a page of S3 has 1000
	want := make([]string, count)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range want {
		want[i] = fmt.Sprintf("ledger/%06d.json", i)
		group.Go(func() error { return s.Put(ctx, want[i], strings.NewReader("{}")) })
	}
	require.NoError(t, group.Wait())
	require.Equal(t, want, list(t, s, "ledger/"))
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

func badKeys(t *testing.T, s artifact.Store) {
	put(t, s, "good", "x")
	for _, key := range []string{
		"", "/a", "a/", "a//b", ".", "..", "./a", "a/./b", "a/../b", "../a", "a b", "a\\b", "a=b", "a=2eb", "a=00b",
		"a=2Fb", "ä", ".conclave-tmp/x", strings.Repeat("a", 256), strings.Repeat("a/", 500) + "a",
	} {
		var bad *artifact.NameError
		_, err := s.Get(t.Context(), key)
		require.ErrorAs(t, err, &bad, "get %q", key)
		_, err = s.Open(t.Context(), key)
		require.ErrorAs(t, err, &bad, "open %q", key)
		_, err = s.Exists(t.Context(), key)
		require.ErrorAs(t, err, &bad, "exists %q", key)
		require.ErrorAs(t, s.Put(t.Context(), key, strings.NewReader("x")), &bad, "put %q", key)
		require.ErrorAs(t, s.Create(t.Context(), key, nil), &bad, "create %q", key)
		require.ErrorAs(t, s.Copy(t.Context(), key, "good"), &bad, "copy from %q", key)
		require.ErrorAs(t, s.Copy(t.Context(), "good", key), &bad, "copy to %q", key)
		require.ErrorAs(t, s.Delete(t.Context(), key), &bad, "delete %q", key)
	}
	for _, prefix := range []string{"a", "/", "a//", "../", "a b/"} {
		for _, err := range s.List(t.Context(), prefix) {
			var bad *artifact.NameError
			require.ErrorAs(t, err, &bad, "list %q", prefix)
		}
	}
	require.Equal(t, []string{"good"}, list(t, s, ""))
}

func urlOfObject(t *testing.T, s artifact.Store) {
	url := s.URL("agents/a/001/answer.json")
	require.True(t, strings.HasSuffix(url, "/agents/a/001/answer.json"), url)
	require.NotContains(t, strings.TrimPrefix(url, "s3://"), ":", "neither a host nor a port")
}
