package stagetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/artifact"
)

// RequireTimes requires that each event and ledger entry of a run has a time.
func RequireTimes(t *testing.T, store artifact.Store, run artifact.Layout) {
	t.Helper()
	hasTime := func(entry []byte, name string) {
		var e struct{ Time time.Time }
		require.NoError(t, json.Unmarshal(entry, &e), name)
		require.False(t, e.Time.IsZero(), "%s has no time: %s", name, entry)
	}
	events, err := store.Get(t.Context(), run.File("events.jsonl"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(events)), "\n")
	require.NotEmpty(t, lines[0])
	for _, line := range lines {
		hasTime([]byte(line), "an event")
	}
	for key, err := range store.List(t.Context(), run.File("ledger/")) {
		require.NoError(t, err)
		entry, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		hasTime(entry, key)
	}
}

// CopyOf returns a copy of the files in a store, as they would be if the process had been killed at
// this moment.
func CopyOf(t *testing.T, store *artifact.Dir) *artifact.Dir {
	t.Helper()
	dir := t.TempDir()
	for key, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		data, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, key)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, key), data, 0o644))
	}
	copied, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = copied.Close() })
	return copied
}

// ReadJSON decodes an object of the store.
func (s *Stage) ReadJSON(t *testing.T, key string, v any) {
	t.Helper()
	data, err := s.Store.Get(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v))
}

// Continued decodes an input that contains the field continued, as a client might forge it.
func Continued[T any](t *testing.T, document string) (in T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(document), &in))
	encoded, err := json.Marshal(in)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"continued":{`)
	return in
}
