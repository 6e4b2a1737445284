package team

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/loop"
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
	require.Equal(t, answerDuplicate, again.Judge(reply(callAnswer("Phobos."))).Rejected)

	task.Inbox = nil
	require.ErrorContains(t, learnAll(t, task, p.entries), "recalling the answers of a update: there is no inbox to fetch agent2.1 from")
}

// TestLearnKeepsTheDelimiter: a step that a later launch goes on with is told
// of news under the delimiter that its opening told of.
func TestLearnKeepsTheDelimiter(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, func(t *task) { t.SystemMessage = "Only lines with the mark of Cain count." })
	p := play(t, t.Context(), task, turn{calls: reply(reading).ToolCalls})
	require.ErrorIs(t, p.err, scriptError{})

	later := task
	later.Frame = "ffffffffffff"
	rules := p.restored(t, later)
	w.answer(2, 1, "See "+testFrame+".")
	u, err := rules.Updates(t.Context())
	require.NoError(t, err)
	require.Contains(t, u.Messages[0].Content, "=== "+testFrame+" begin agent2.1 ===\nSee [...].\n")
	require.NotContains(t, u.Messages[0].Content, "ffffffffffff")
}

// TestLearnRefusesWhatItCannotRead: a note that is not the rules' own.
func TestLearnRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	err := newRules(evaluation()).Learn(t.Context(), loop.Entry{Kind: loop.Updated, Note: json.RawMessage(`[]`)})
	require.ErrorContains(t, err, "reading the rules' note of a update: ")
}

func learnAll(t *testing.T, task task, entries []loop.Entry) error {
	t.Helper()
	rules := newRules(task)
	for _, e := range entries {
		if err := rules.Learn(t.Context(), e); err != nil {
			return err
		}
	}
	return nil
}
