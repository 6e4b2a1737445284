package session

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
)

// A late record of the run that ended finds the seal and stops; the new run goes on after it.
func TestRecord_sealedLedger(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	layout := artifact.InBucket("s1")
	old := session.Entry{Run: "old", Accepted: accepted(1, "a")}
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, layout.Ledger(1), old))
	for range 2 { // a repetition finds its own seal
		seal, err := session.Seal(t.Context(), b.store, layout, "new", time.Unix(60, 0))
		require.NoError(t, err)
		require.Equal(t, 2, seal)
	}
	require.Equal(t, session.Entry{Run: "new", From: "old", Accepted: coordination.Accepted{Action: session.Resumed, Time: time.Unix(60, 0).UTC()}}, b.ledger(2))

	err := b.tryRecord(RecordInput{Entries: []coordination.Accepted{accepted(2, "late")}})
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "Superseded", refused.Type())
	require.True(t, refused.NonRetryable())

	err = b.tryRecord(RecordInput{Status: State{Status: "late"}})
	require.ErrorAs(t, err, &refused, "without entries, too")
	require.Equal(t, "Superseded", refused.Type())
	there, err := b.store.Exists(t.Context(), layout.File("status.json"))
	require.NoError(t, err)
	require.False(t, there)

	b.record(RecordInput{Seal: 2, Entries: []coordination.Accepted{accepted(2, "b")}})
	b.record(RecordInput{Seal: 2, Entries: []coordination.Accepted{accepted(2, "b"), accepted(3, "c")}})
	require.Equal(t, "b", b.ledger(3).Agent)
	require.Equal(t, "c", b.ledger(4).Agent)
	entries, err := session.Ledger(t.Context(), b.store, layout)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

// Journals stay at the end of a session that can be reopened.
func TestRecord_keepsJournalsOfAFailedSession(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	key := artifact.InBucket("s1").Journal("run-l1", 1)
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, key, "entry"))
	s := coordination.New(coordination.Config{Agents: []string{"a"}})
	s.Drain()
	s.Step(coordination.Failed{End: coordination.End{Launch: "l1"}})
	s.Drain()
	require.True(t, s.Done())
	b.record(RecordInput{Over: true, Saved: &Saved{Core: s, SecondsLeft: 5}})
	there, err := b.store.Exists(t.Context(), key)
	require.NoError(t, err)
	require.True(t, there)
	state, err := artifact.ReadJSON[activities.SavedState[Saved]](t.Context(), b.store, artifact.InBucket("s1").SavedState("default-test-run-id"))
	require.NoError(t, err)
	require.Equal(t, 5, state.Saved.SecondsLeft)
	require.Equal(t, s.Decision(), state.Saved.Core.Decision())
}

func TestCanReopen_belongsToTheWorkflow(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	a := &Activities{Process: attempt.Process{Store: b.store}}
	require.ErrorContains(t, a.CanReopen(t.Context(), ReopenInput{Session: "s2", WorkflowID: "s2"}), "there is no session s2 to go on with")
	require.ErrorContains(t, a.CanReopen(t.Context(), ReopenInput{Session: "s1", WorkflowID: "thief"}), "resume it under that ID")

	team := config.Default()
	canonical, err := team.Canonical()
	require.NoError(t, err)
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, "sessions/s3/session.json", artifact.Session{Query: "Why?", ConfigHash: team.Hash()}))
	require.NoError(t, artifact.CreateJSON(t.Context(), b.store, "sessions/s3/config.json", json.RawMessage(canonical)))
	require.NoError(t, a.CanReopen(t.Context(), ReopenInput{Session: "s3"}), "before its first record, by a command without a server")

	require.NoError(t, artifact.PutJSON(t.Context(), b.store, artifact.InBucket("s1").File(artifact.Deleted), struct{}{}))
	require.ErrorContains(t, a.CanReopen(t.Context(), ReopenInput{Session: "s1", WorkflowID: "s1"}), "session s1 is being deleted")
}
