package loop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

// The request has no tool calls. Its record names the speakers and contains earlier notes
// completely.
func TestSummaryRequest(t *testing.T) {
	t.Parallel()
	c := begun().add(llm.Message{Role: llm.User, Content: "NOTES " + strings.Repeat("n", 900)}).
		turn("read_file", 90000).fixed(llm.User, "agent2 has a new answer: "+strings.Repeat("a", 3000)).turn("list_files", 3).turns(1, 3)
	asked := c.SummaryRequest(8, 8192, nil)
	require.Len(t, asked, 2)
	require.Equal(t, []llm.Role{llm.System, llm.User}, []llm.Role{asked[0].Role, asked[1].Role})
	text := asked[1].Content
	for _, part := range []string{
		"How many moons has Mars?", c.Messages[2].Content, "--- the agent calls read_file ---\n{\"path\":\"a.md\"}\n", "--- result of read_file ---\nxxx",
		" of 90,000 bytes]", "--- told to the agent, which keeps it ---\nagent2 has a new answer", "--- result of list_files ---\nxxx\n",
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, strings.Repeat("a", 500), "what the agent keeps anyway is not repeated")
	require.Equal(t, 1, strings.Count(text, "calls list_files"))
	require.Equal(t, 1, strings.Count(text, "calls read_file"), "the turns that stay are no part of it")
	require.Less(t, len(text), 8192*3)
}

func TestSummary(t *testing.T) {
	t.Parallel()
	c := begun().turns(5, 100)
	m := c.Summary(8, 8192, nil, " \nmoons.md is written. \n")
	require.Equal(t, llm.User, m.Role)
	require.Contains(t, m.Content, "stand for 3 of your earlier replies")
	require.True(t, strings.HasSuffix(m.Content, "\n\nmoons.md is written."))

	m = c.Summary(8, 8192, nil, strings.Repeat("é", 1<<20))
	require.Less(t, len(m.Content), 8192)
	require.Contains(t, m.Content, "cut here", "nothing is left out without a word")
}

// The request fits for any conversation.
func TestSummaryRequest_fits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tokens := rapid.IntRange(4096, 1<<16).Draw(rt, "window")
		c := begun().fixed(llm.User, strings.Repeat("x", rapid.IntRange(0, 1<<16).Draw(rt, "task")))
		for range rapid.IntRange(0, 150).Draw(rt, "turns") {
			c.turn("read_file", rapid.IntRange(0, 4000).Draw(rt, "result"))
		}
		asked := c.SummaryRequest(len(c.Messages), tokens, nil)
		require.LessOrEqual(rt, History{Messages: asked}.Tokens(nil), tokens-max(1024, min(tokens/4, 8192)))
	})
}
