//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	sessionflow "conclave/workflows/session"
)

// account is everything that a session leaves, except times and the order of the agents' turns.
type account struct {
	result sessionflow.Result
	calls  map[string]int    // of models
	files  map[string]string // content by key; for files that contain times, only their existence
	ledger []string          // accepted actions
}

// accountOf reads the account from the store.
func accountOf(t *testing.T, store artifact.Store, id string) account {
	t.Helper()
	a := account{files: map[string]string{}, ledger: ledger(t, store, id)}
	root := artifact.InBucket(id).Root()
	for key, err := range store.List(t.Context(), root) {
		require.NoError(t, err)
		name := strings.TrimPrefix(key, root)
		switch {
		case strings.HasPrefix(name, "blobs/"), strings.HasPrefix(name, "ledger/"), strings.HasPrefix(name, "reached/"), strings.HasPrefix(name, "runs/"):
		case slices.ContainsFunc([]string{"/answer.json", "/vote.json", "status.json"}, func(end string) bool { return strings.HasSuffix(name, end) }):
			a.files[name] = timeless(t, store, key)
		case strings.Contains(name, "/workspace/"):
			data, err := store.Get(t.Context(), key)
			require.NoError(t, err)
			a.files[name] = string(data)
		default:
			a.files[name] = ""
		}
	}
	return a
}

// timeless returns a document without its timestamp.
func timeless(t *testing.T, store artifact.Store, key string) string {
	t.Helper()
	document, err := artifact.ReadJSON[map[string]any](t.Context(), store, key)
	require.NoError(t, err)
	delete(document, "timestamp")
	data, err := json.Marshal(document)
	require.NoError(t, err)
	return string(data)
}

// ledger reads the accepted actions and checks them: every step has one entry, every entry equals
// its step's action, and every action has an entry.
func ledger(t *testing.T, store artifact.Store, id string) []string {
	t.Helper()
	layout := artifact.InBucket(id)
	var accepted, committed []string
	entries := 0
	for key, err := range store.List(t.Context(), layout.Root()) {
		require.NoError(t, err)
		switch {
		case strings.HasPrefix(key, layout.File("ledger/")):
			entries++
			require.Equal(t, layout.Ledger(entries), key, "the ledger has no gap")
			e, err := artifact.ReadJSON[coordination.Accepted](t.Context(), store, key)
			require.NoError(t, err)
			require.Equal(t, entries, e.Seq)
			accepted = append(accepted, fmt.Sprintf("%s %03d", e.Agent, e.Step))
		case strings.HasSuffix(key, "/action.json"):
			agent, step, _ := strings.Cut(strings.TrimPrefix(key, layout.File("agents/")), "/")
			committed = append(committed, agent+" "+strings.TrimSuffix(step, "/action.json"))
		}
	}
	slices.Sort(accepted)
	require.Equal(t, accepted, committed, "one action a step, and each of them accepted once")
	return accepted
}

// started lists the started events of the final attempts of activities of a type, by activity ID.
func started(h *historypb.History, activity string) map[string]*historypb.ActivityTaskStartedEventAttributes {
	ids := map[int64]string{}
	all := map[string]*historypb.ActivityTaskStartedEventAttributes{}
	for _, e := range h.Events {
		if scheduled := e.GetActivityTaskScheduledEventAttributes(); scheduled != nil && scheduled.ActivityType.Name == activity {
			ids[e.EventId] = scheduled.ActivityId
		}
		if begun := e.GetActivityTaskStartedEventAttributes(); begun != nil && ids[begun.ScheduledEventId] != "" {
			all[ids[begun.ScheduledEventId]] = begun
		}
	}
	return all
}

// requireFirstAttempts checks that no attempt of any activity was lost.
func requireFirstAttempts(t *testing.T, h *historypb.History) {
	t.Helper()
	for _, activity := range []string{"Prepare", "RunStep", "Record", "Present"} {
		begun := started(h, activity)
		require.NotEmpty(t, begun, activity)
		for id, s := range begun {
			require.EqualValues(t, 1, s.Attempt, "%s %s: %v", activity, id, s.LastFailure)
		}
	}
}
