package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// DESIGN: the texts of peers share a part of the context window. A small window truncates an answer
// that larger ones show completely, and the answer's file has the rest.
func TestOpening_smallWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.run(first("agent_b", 2), "run-b", answer(strings.Repeat("Two is one and one.\n", 180)+"The end."))
	require.NoError(t, err)
	shown := coordination.Shown{Agent: "agent_b", Number: 2, Label: "agent2.1", Step: 1}
	for after, window := range []int{0, 8192, 4096} {
		cut := window == 4096
		s := b.newStep(later("agent_a", 1, after, shown), "run-"+strings.Repeat("x", 1+after))
		s.Window = window
		spec, err := s.Spec(t.Context(), b.store)
		require.NoError(t, err)
		reads := call("read_file", map[string]any{"path": "peers/agent2.md", "offset": 170})
		model := &script{replies: []llm.Message{reads, vote("agent2", "Two.")}}
		_, err = step.Run(t.Context(), b.ports(model), spec)
		require.NoError(t, err)
		opening := model.requests[0].Messages[1].Content
		require.Equal(t, !cut, strings.Contains(opening, "The end."), "window %d", window)
		require.Equal(t, cut, strings.Contains(opening, "The whole text is in peers/agent2.md."), "window %d", window)
		if cut {
			require.Contains(t, model.requests[1].Messages[3].Content, "The end.")
		}
	}
}
