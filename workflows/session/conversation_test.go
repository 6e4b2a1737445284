package session_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// The stored texts of a long question are those that the agents see, and the session's record; the
// workflow keeps their beginning.
func TestSession_storedTexts(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, stagetest.Seed(), nil)
	c := artifact.Conversation{Query: "Tabs? " + strings.Repeat("long ", 100_000), Instructions: "Be brief.", History: []artifact.Turn{{Query: "Spaces?", Answer: "No."}}}
	data, err := json.Marshal(c)
	require.NoError(t, err)
	layout, hash := artifact.InBucket("s1"), artifact.SumOf(data)
	require.NoError(t, s.Store.Put(t.Context(), layout.Conversation(hash), bytes.NewReader(data)))
	prompt := s.Cast["agent_a"].Prompts()
	result := stagetest.Play[session.Result](t, s, session.Type, session.Input{Query: "Tabs? …", SessionID: "s1", Conversation: hash})
	require.Equal(t, string(coordination.Consensus), result.Status)
	shown := stagetest.User(prompt(1))
	require.Contains(t, shown, c.Query[:len(c.Query)-1])
	require.Contains(t, shown, "Be brief.")
	require.Contains(t, shown, "Spaces?")
	var recorded artifact.Session
	s.ReadJSON(t, layout.File("session.json"), &recorded)
	require.Equal(t, c.Query, recorded.Query)
	require.Equal(t, 1, recorded.Turns)
}
