package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
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
		{"contents that are put together are found one by one", putBlobs},
		{"create fails for a taken key", createOnce},
		{"an empty body is an object", emptyBody},
		{"a large object survives", largeObject},
		{"copy keeps the source", copyObject},
		{"delete succeeds for a free key", deleteTwice},
		{"delete all deletes the named keys only", deletesNamed},
		{"delete all takes more keys than fit into a request", deleteMany},
		{"objects have sizes and times", describesObjects},
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

func putText(t *testing.T, s artifact.Store, key, body string) {
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

func listKeys(t *testing.T, s artifact.Store, prefix string) []string {
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
	putText(t, s, "agents/a/001/answer.json", body)
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
	putText(t, s, "status.json", "a long first version")
	putText(t, s, "status.json", "second")
	requireObject(t, s, "status.json", "second")
}

func notFound(t *testing.T, s artifact.Store) {
	putText(t, s, "agents/a/last_action.json", "{}")
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
	putText(t, s, "dir/empty", "")
	require.NoError(t, s.Create(t.Context(), "dir/created", nil))
	require.NoError(t, s.Copy(t.Context(), "dir/empty", "dir/copied"))
	require.Equal(t, []string{"dir/copied", "dir/created", "dir/empty"}, listKeys(t, s, "dir/"))
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
	putText(t, s, "blobs/sha256/one", "one")
	putText(t, s, "agents/a/001/workspace/one.txt", "taken")
	require.NoError(t, s.Copy(t.Context(), "blobs/sha256/one", "agents/a/001/workspace/one.txt"))
	require.NoError(t, s.Copy(t.Context(), "blobs/sha256/one", "agents/a/001/workspace/one.txt"))
	requireObject(t, s, "agents/a/001/workspace/one.txt", "one")

	putText(t, s, "agents/a/001/workspace/one.txt", "changed")
	requireObject(t, s, "blobs/sha256/one", "one")
}

func putBlobs(t *testing.T, s artifact.Store) {
	require.NoError(t, s.PutBlobs(t.Context(), "blobs/sha256/", []artifact.Content{{SHA256: "one", Data: []byte("1")}, {SHA256: "two", Data: []byte("2")}}))
	require.NoError(t, s.PutBlobs(t.Context(), "blobs/sha256/", []artifact.Content{{SHA256: "two", Data: []byte("2")}, {SHA256: "none"}}))
	for key, want := range map[string]string{"one": "1", "two": "2", "none": ""} {
		require.NoError(t, s.Copy(t.Context(), "blobs/sha256/"+key, "copy/"+key))
		requireObject(t, s, "copy/"+key, want)
		body, err := s.Open(t.Context(), "blobs/sha256/"+key)
		require.NoError(t, err)
		data, err := io.ReadAll(body)
		require.NoError(t, errors.Join(err, body.Close()))
		require.Equal(t, want, string(data))
	}
	_, err := s.Open(t.Context(), "blobs/sha256/three")
	require.ErrorIs(t, err, artifact.ErrNotFound)
}

func deleteTwice(t *testing.T, s artifact.Store) {
	putText(t, s, "dir/gone", "x")
	putText(t, s, "dir/stays", "y")
	require.NoError(t, s.Delete(t.Context(), "dir/gone"))
	require.NoError(t, s.Delete(t.Context(), "dir/gone"))
	require.NoError(t, s.Delete(t.Context(), "never/was"))
	require.NoError(t, s.Delete(t.Context(), "dir"), "a prefix is no object")
	requireFree(t, s, "dir/gone")
	requireObject(t, s, "dir/stays", "y")
}

func deletesNamed(t *testing.T, s artifact.Store) {
	for _, key := range []string{"s/1/a", "s/1/b/c", "s/10/a", "s/1-a"} {
		putText(t, s, key, "x")
	}
	require.NoError(t, s.DeleteAll(t.Context(), nil))
	require.NoError(t, s.DeleteAll(t.Context(), []string{"s/1/b/c", "s/1/never", "s/1/a"}))
	require.NoError(t, s.DeleteAll(t.Context(), []string{"s/1/b/c", "s/1/a"}), "free keys are not errors")
	require.Equal(t, []string{"s/1-a", "s/10/a"}, listKeys(t, s, ""))
	var bad *artifact.NameError
	require.ErrorAs(t, s.DeleteAll(t.Context(), []string{"../outside"}), &bad)
}

func deleteMany(t *testing.T, s artifact.Store) {
	keys := putMany(t, s, 1100)
	putText(t, s, "session.json", "x")
	require.NoError(t, s.DeleteAll(t.Context(), keys))
	require.Equal(t, []string{"session.json"}, listKeys(t, s, ""))
}

func describesObjects(t *testing.T, s artifact.Store) {
	before := time.Now().Add(-time.Minute) // clocks differ, and some stores have whole seconds
	putText(t, s, "s/1/empty", "")
	putText(t, s, "s/1/my=20notes", "12345")
	putText(t, s, "s/2/other", "x")
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
	putText(t, s, "object", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"object", "new"} {
		for method, err := range callMethods(ctx, s, key) {
			require.ErrorIs(t, err, context.Canceled, "%s %q", method, key)
			require.ErrorAs(t, err, new(*artifact.StoreError), "%s %q", method, key)
		}
	}
	for _, err := range s.List(ctx, "") {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorAs(t, err, new(*artifact.StoreError))
	}
	require.Equal(t, []string{"object"}, listKeys(t, s, ""))
	requireObject(t, s, "object", "x")
}
