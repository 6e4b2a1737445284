package directory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/directory"
)

// An agent without an ID gets the next free one: who is there keeps theirs,
// steps or not.
func TestReserve(t *testing.T) {
	t.Parallel()
	s := newSession(t, nil)
	id, err := directory.Reserve(s.root)
	require.NoError(t, err)
	require.Equal(t, "agent_a", id)
	s.write("agents/agent_b/001/answer.json", answer("x"))
	s.link("nowhere", "agents/agent_c")
	id, err = directory.Reserve(s.root)
	require.NoError(t, err)
	require.Equal(t, "agent_d", id)
	got := make(chan string)
	for range 8 {
		go func() {
			id, _ := directory.Reserve(s.root)
			got <- id
		}()
	}
	ids := map[string]bool{}
	for range 8 {
		ids[<-got] = true
	}
	require.Len(t, ids, 8, "at once, each gets another one")
	for {
		if id, err = directory.Reserve(s.root); err != nil {
			break
		}
	}
	require.Empty(t, id)
	require.ErrorContains(t, err, "give the agent an id of its own")
}
