package directory

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

const claimed = `{"token": "one", "seen_steps": {}, "labels": []}`

// A step is running while its lock is held.
func TestLock(t *testing.T) {
	t.Parallel()
	s := newSession(t, map[string]string{"agents/a/001/step.json": claimed})
	running := func() bool { return s.clean().Running(s.root)("a", 1) }
	require.False(t, running())
	lock, err := Hold(t.Context(), s.root, "one")
	require.NoError(t, err)
	require.True(t, running())
	require.False(t, s.clean().Running(s.root)("a", 2))
	other, err := Hold(t.Context(), s.root, "one")
	require.NoError(t, err)
	require.Nil(t, other, "one process holds the lock")
	another, err := Hold(t.Context(), s.root, "two")
	require.NoError(t, err)
	another.Remove()

	lock.Release()
	require.False(t, running())
	lock, err = Hold(t.Context(), s.root, "one")
	require.NoError(t, err)
	require.NotNil(t, lock)
	lock.Remove()
	require.False(t, running())
	left, err := os.ReadDir(s.path(".conclave-locks"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Neither tokens nor links create a lock outside the directory.
func TestLock_staysInside(t *testing.T) {
	t.Parallel()
	outside := newSession(t, nil)
	s := newSession(t, map[string]string{"agents/a/001/step.json": `{"token": "../../x", "seen_steps": {}, "labels": []}`})
	s.link(outside.dir, ".conclave-locks")
	_, err := Hold(t.Context(), s.root, "one")
	require.Error(t, err)
	require.False(t, s.clean().Running(s.root)("a", 1))
	require.NoError(t, os.Remove(s.path(".conclave-locks")))
	lock, err := Hold(t.Context(), s.root, "../../x")
	require.NoError(t, err)
	require.True(t, s.clean().Running(s.root)("a", 1))
	lock.Release()
	left, err := os.ReadDir(outside.dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A step with an action and a journal was interrupted after its commit.
func TestAgent_uncleared(t *testing.T) {
	t.Parallel()
	commit := `{"token": "one", "kind": "new_answer", "payload": {"answer": "A"}}`
	s := newSession(t, map[string]string{"agents/a/001/step.json": claimed, "agents/a/001/action.json": commit})
	d := s.clean()
	a, _ := d.Agent("a")
	require.Empty(t, a.Uncleared)
	require.Equal(t, 1, a.Last)
	s.write("journal/one/000001.json", "{}")
	s.write("agents/a/002/step.json", `{"token": "two", "seen_steps": {}, "labels": []}`)
	d = s.clean()
	a, _ = d.Agent("a")
	require.Len(t, a.Uncleared, 1)
	require.Equal(t, 1, a.Uncleared[0].Step)
	require.Equal(t, "one", a.Uncleared[0].Token)
	require.Equal(t, 1, a.Last)
	require.True(t, HasJournal(s.root, "one"))
	for _, token := range []string{"two", "", "..", "../journal/one", "one/."} {
		require.False(t, HasJournal(s.root, token), token)
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	turns, err := Turns(s.root)
	require.NoError(t, err)
	require.Nil(t, turns)
	s.write("history.json", `[{"query":"Who?","answer":"Nobody.","model":"m"}]`)
	turns, err = Turns(s.root)
	require.NoError(t, err)
	require.Equal(t, []artifact.Turn{{Query: "Who?", Answer: "Nobody."}}, turns)
	s.write("history.json", `{"query":"Who?"}`)
	_, err = Turns(s.root)
	require.ErrorContains(t, err, "history.json is not a list of objects with query and answer")
	require.NoError(t, os.Remove(s.path("history.json")))
	s.link("/etc/hostname", "history.json")
	_, err = Turns(s.root)
	require.ErrorContains(t, err, "history.json is a symbolic link, not a file")
}

func TestCriteria(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	data, err := Criteria(s.root)
	require.NoError(t, err)
	require.Nil(t, data)
	s.write("eval_criteria.json", "[]")
	data, err = Criteria(s.root)
	require.NoError(t, err)
	require.Equal(t, "[]", string(data))
	require.NoError(t, os.Remove(s.path("eval_criteria.json")))
	s.link("/etc/hostname", "eval_criteria.json")
	_, err = Criteria(s.root)
	require.ErrorContains(t, err, "eval_criteria.json is a symbolic link, not a file")
}
