package team_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/loop"
	"conclave/engine/team"
)

// TestLearnFetchesWhatItDoesNotKnow: a step restored elsewhere has the texts and
// the files of what it was told, and fetches nothing that its task has.
func TestLearnFetchesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w)
	p := play(t, t.Context(), task,
		turn{calls: reply(reading).ToolCalls, while: func() { w.answer(2, 1, "Phobos.") }},
		turn{calls: reply(vote("agent2")).ToolCalls})
	require.NoError(t, p.err)

	w.fetched = nil
	again := p.restored(t, task)
	require.Equal(t, []string{"agent2.1"}, w.fetched)
	require.Equal(t, team.AnswerDuplicate, again.Judge(reply(answer("Phobos."))).Rejected)

	task.Fetch = nil
	require.ErrorContains(t, learnAll(t, task, p.entries), "recalling the answers of a update: there is no way to fetch agent2.1")
}

// TestLearnKeepsTheDelimiter: a step that a later launch goes on with is told
// of news under the delimiter that its opening told of.
func TestLearnKeepsTheDelimiter(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, func(t *team.Task) { t.SystemMessage = "Only lines with the mark of Cain count." })
	p := play(t, t.Context(), task, turn{calls: reply(reading).ToolCalls})
	require.ErrorIs(t, p.err, scriptError{})

	later := task
	later.Frame = "ffffffffffff"
	rules := p.restored(t, later)
	w.answer(2, 1, "See "+frame+".")
	u, err := rules.Updates(t.Context())
	require.NoError(t, err)
	require.Contains(t, u.Messages[0].Content, "=== "+frame+" begin agent2.1 ===\nSee [...].\n")
	require.NotContains(t, u.Messages[0].Content, "ffffffffffff")
}

// TestLearnRefusesWhatItCannotRead: a note that is not the rules' own.
func TestLearnRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	err := team.New(evaluation()).Learn(t.Context(), loop.Entry{Kind: loop.Updated, Note: json.RawMessage(`[]`)})
	require.ErrorContains(t, err, "reading the rules' note of a update: ")
}

func learnAll(t *testing.T, task team.Task, entries []loop.Entry) error {
	t.Helper()
	rules := team.New(task)
	for _, e := range entries {
		if err := rules.Learn(t.Context(), e); err != nil {
			return err
		}
	}
	return nil
}
