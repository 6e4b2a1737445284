package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	team "conclave/engine/session"
)

// decided puts a session with a decision into the store.
func (f *floor) decided(id, query, answer string, of config.Team) {
	f.t.Helper()
	layout := artifact.InBucket(id)
	put := func(key string, doc any) { require.NoError(f.t, artifact.PutJSON(f.t.Context(), f.store, key, doc)) }
	put(layout.File("session.json"), artifact.Session{Query: query, ConfigHash: of.Hash(), Continues: "s0", Turns: 1})
	put(layout.File(team.HistoryFile), []artifact.Turn{{Query: "First?", Answer: "Yes."}})
	canonical, err := of.Canonical()
	require.NoError(f.t, err)
	require.NoError(f.t, f.store.Create(f.t.Context(), layout.File("config.json"), canonical))
	put(layout.File("status.json"), State{Status: "consensus", Final: &FinalAnswer{Agent: "agent_b", Label: "agent2.1"}})
	put(layout.Final("agent_b", "answer.json"), artifact.Answer{Answer: answer})
}

// A session that continues another one has its turns and, unless the input has one, its team.
func TestPrepare_continues(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	own := config.Default().Offline()
	f.decided("old", "Second?", "No.", own)
	p, err := f.prepare(PrepareInput{Continues: "old"})
	require.NoError(t, err)
	require.Equal(t, own.Hash(), p.ConfigHash)
	layout := artifact.InBucket("s2")
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, layout.File("session.json"))
	require.NoError(t, err)
	require.Equal(t, "old", session.Continues)
	turns, err := team.ReadTurns(t.Context(), f.store, layout, session)
	require.NoError(t, err)
	require.Equal(t, []artifact.Turn{{Query: "First?", Answer: "Yes."}, {Query: "Second?", Answer: "No."}}, turns)
	_, err = f.prepare(PrepareInput{Continues: "old"})
	require.NoError(t, err, "a retry finds its own claim")

	f = newFloor(t)
	f.decided("old", "Second?", "No.", own)
	p, err = f.prepare(PrepareInput{Continues: "old", Team: activities.DefaultTeam})
	require.NoError(t, err)
	require.Equal(t, f.team.Hash(), p.ConfigHash)
}

// The files of the decision are the base, unless the input has another.
func TestPrepare_continuesWithFiles(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	f.decided("old", "Second?", "No.", f.team)
	layout := artifact.InBucket("old")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.md"), []byte("P"), 0o644))
	change, _, err := artifact.OpenWorkingCopy(f.store, layout, dir, "").Seal(t.Context())
	require.NoError(t, err)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, layout.Final("agent_b", "workspace.json"), change))
	_, err = f.prepare(PrepareInput{Continues: "old"})
	require.NoError(t, err)
	session, err := artifact.ReadJSON[artifact.Session](t.Context(), f.store, "sessions/s2/session.json")
	require.NoError(t, err)
	hash, err := snapshot.Parse(session.Base)
	require.NoError(t, err)
	b, err := snapshot.Open(t.Context(), f.store, hash)
	require.NoError(t, err)
	require.Equal(t, change.Files, b.Manifest().Files)

	// The session that follows changes a file of this answer.
	f.decided("newer", "Third?", "Yes.", f.team)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "sessions/newer/session.json", artifact.Session{
		Query: "Third?", ConfigHash: f.team.Hash(), Turns: 1, Material: artifact.Material{Base: session.Base},
	}))
	c, err := Continue(t.Context(), f.store, "newer")
	require.NoError(t, err)
	unchanged, err := f.baseOf(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, session.Base, unchanged)
	c.Change = artifact.Change{Base: hash, Files: []artifact.File{}, Removed: []string{"plan.md"}}
	emptied, err := f.baseOf(t.Context(), c)
	require.NoError(t, err)
	require.NotEqual(t, session.Base, emptied)
	c.Change.Base = "another"
	_, err = f.baseOf(t.Context(), c)
	require.ErrorContains(t, err, "read the files of session newer")
}

func TestPrepare_history(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	given := []artifact.Turn{{Query: "Who?", Answer: "Nobody."}}
	_, err := f.prepare(PrepareInput{History: given})
	require.NoError(t, err)
	stored, err := artifact.ReadJSON[[]artifact.Turn](t.Context(), f.store, "sessions/s2/history.json")
	require.NoError(t, err)
	require.Equal(t, given, stored)
}

func TestPrepare_cannotContinue(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "sessions/open/session.json", artifact.Session{Query: "Why?"}))
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "sessions/failed/session.json", artifact.Session{Query: "Why?"}))
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "sessions/failed/status.json", State{Status: "failed"}))
	for name, tt := range map[string]struct {
		in   PrepareInput
		says string
	}{
		"unknown":       {PrepareInput{Continues: "nobody"}, "session nobody cannot be continued: the store has no such session"},
		"open":          {PrepareInput{Continues: "open"}, "session open cannot be continued: it has no decision"},
		"failed":        {PrepareInput{Continues: "failed"}, "session failed cannot be continued: it has no decision"},
		"not an ID":     {PrepareInput{Continues: "../up"}, "session ../up cannot be continued"},
		"a long answer": {PrepareInput{History: []artifact.Turn{{Answer: strings.Repeat("a", team.MaxConversation)}}}, "at most 262144 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.prepare(tt.in)
			var refused *temporal.ApplicationError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, activities.ConfigInvalid, refused.Type())
			require.True(t, refused.NonRetryable())
			require.Contains(t, refused.Message(), tt.says)
			there, err := f.store.Exists(t.Context(), "sessions/s2/session.json")
			require.NoError(t, err)
			require.False(t, there, "nothing is claimed")
		})
	}
}

// Every agent is shown the earlier turns.
func TestRunStep_showsEarlierTurns(t *testing.T) {
	t.Parallel()
	f := newFloor(t, calls("new_answer", map[string]string{"content": "Two."}))
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "sessions/s1/session.json", artifact.Session{Query: "And Mars?", Turns: 1}))
	require.NoError(t, artifact.PutJSON(t.Context(), f.store, "sessions/s1/history.json", []artifact.Turn{{Query: "How many moons has the Earth?", Answer: "One."}}))
	r, err := f.run(answering())
	require.NoError(t, err)
	require.Equal(t, coordination.NewAnswer, r.Action)
	transcript, err := f.store.Get(t.Context(), "sessions/s1/agents/agent_a/001/transcript.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(transcript), "How many moons has the Earth?")
	require.Equal(t, llm.Usage{InputTokens: 100, OutputTokens: 10, ModelCalls: 1}, r.Usage)
}
