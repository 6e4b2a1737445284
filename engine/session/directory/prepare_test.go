package directory

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsable(t *testing.T) {
	t.Parallel()
	require.NoError(t, Usable(newSession(t, nil).root, "a"))
	for _, name := range []string{
		".conclave-locks", ".conclave-tmp", "agents", "agents/a", "blobs", "blobs/sha256", "journal",
	} {
		s := newSession(t, map[string]string{name + "/": ""})
		require.NoError(t, Usable(s.root, "a"), name)
		require.NoError(t, os.Remove(s.path(name)))
		require.NoError(t, syscall.Mkfifo(s.path(name), 0o644))
		var unusable *UnusableError
		require.ErrorAs(t, Usable(s.root, "a"), &unusable, name)
		require.ErrorContains(t, unusable, name+" ")
		require.NoError(t, os.Remove(s.path(name)))
		s.link(t.TempDir(), name)
		require.ErrorAs(t, Usable(s.root, "a"), &unusable, name)
	}
	s := newSession(t, map[string]string{"agents/a/last_action.json/": ""})
	require.ErrorContains(t, Usable(s.root, "a"), "agents/a/last_action.json is a directory: remove it")
	require.NoError(t, Usable(s.root, "b"))
}

// An ID with a directory is taken, with or without a step.
func TestReserve(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	id, err := Reserve(s.root)
	require.NoError(t, err)
	require.Equal(t, "agent_a", id)
	s.write("agents/agent_b/001/answer.json", answerJSON("x"))
	s.link("nowhere", "agents/agent_c")
	id, err = Reserve(s.root)
	require.NoError(t, err)
	require.Equal(t, "agent_d", id)
	got := make(chan string)
	for range 8 {
		go func() {
			id, _ := Reserve(s.root)
			got <- id
		}()
	}
	ids := map[string]bool{}
	for range 8 {
		ids[<-got] = true
	}
	require.Len(t, ids, 8, "at once, each gets another one")
	for {
		if id, err = Reserve(s.root); err != nil {
			break
		}
	}
	require.Empty(t, id)
	require.ErrorContains(t, err, "give the agent an id of its own")
}
