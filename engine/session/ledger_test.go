package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
)

// After a workflow reset, the entries of the new run replace the old ones from its first number on.
func TestLedger_reset(t *testing.T) {
	t.Parallel()
	store, err := artifact.NewDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	layout := artifact.Layout{}
	file := 0
	enter := func(run string, seq int, agent string) {
		file++
		e := session.Entry{Run: run, Accepted: coordination.Accepted{Seq: seq, Agent: agent, Action: coordination.NewAnswer}}
		require.NoError(t, artifact.CreateJSON(t.Context(), store, layout.Ledger(file), e))
	}
	enter("first", 1, "a")
	enter("first", 2, "b")
	enter("first", 3, "c")
	enter("second", 2, "d")
	enter("second", 3, "e")
	entries, err := session.Ledger(t.Context(), store, layout)
	require.NoError(t, err)
	var who []string
	for _, e := range entries {
		who = append(who, e.Run+" "+e.Agent)
	}
	require.Equal(t, []string{"first a", "second d", "second e"}, who)

	enter("second", 5, "f")
	_, err = session.Ledger(t.Context(), store, layout)
	require.ErrorContains(t, err, "entry 5 after 3 entries")
}
