package s3store

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// isBatch reports a request to delete several objects.
func isBatch(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("delete") }

func TestDeleteAll_serversWithoutBatches(t *testing.T) {
	t.Parallel()
	s := &scripted{script: func(_ *scripted, w http.ResponseWriter, r *http.Request, _ int) bool {
		if isBatch(r) {
			refuse(w, http.StatusNotImplemented, "NotImplemented")
			return true
		}
		return false
	}}
	store := s.start(t)
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, store.Put(t.Context(), key, strings.NewReader("x")))
	}
	require.NoError(t, store.DeleteAll(t.Context(), []string{"a", "c", "never"}))
	for key, want := range map[string]bool{"a": false, "b": true, "c": false} {
		there, err := store.Exists(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, want, there, key)
	}
}

// The answer to a batch is a success even where single objects could not be deleted.
func TestDeleteAll_namesWhatStays(t *testing.T) {
	t.Parallel()
	var bodies []string
	s := &scripted{script: func(_ *scripted, w http.ResponseWriter, r *http.Request, _ int) bool {
		if !isBatch(r) {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<DeleteResult><Error><Key>locked</Key><Code>AccessDenied</Code><Message>it is locked</Message></Error>`+
			`<Error><Key>gone</Key><Code>NoSuchKey</Code><Message>no such key</Message></Error></DeleteResult>`)
		return true
	}}
	err := s.start(t).DeleteAll(t.Context(), []string{"free", "locked", "gone"})
	require.EqualError(t, err, "delete s3://bucket/locked: AccessDenied: it is locked")
	require.Len(t, bodies, 1)
	require.Contains(t, bodies[0], "<Key>free</Key>")
}

func TestDeleteAll_batchesOfAThousand(t *testing.T) {
	t.Parallel()
	var sizes []int
	s := &scripted{script: func(_ *scripted, w http.ResponseWriter, r *http.Request, _ int) bool {
		body, _ := io.ReadAll(r.Body)
		sizes = append(sizes, strings.Count(string(body), "<Key>"))
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, "<DeleteResult></DeleteResult>")
		return true
	}}
	var keys []string
	for i := range 2100 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	require.NoError(t, s.start(t).DeleteAll(t.Context(), keys))
	require.Equal(t, []int{1000, 1000, 100}, sizes)
}
