package session

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func userMessage(t require.TestingT, task task) string {
	messages, err := newRules(task).Opening()
	require.NoError(t, err)
	return messages[1].Content
}

// Texts of peers contain neither the delimiter nor control characters, whatever the peers wrote.
func TestFrame_holds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := evaluation()
		task.Mark = rapid.StringMatching(`[A-Za-z0-9_-]{1,8}x7`).Draw(t, "frame")
		task.Query = "?"
		piece := rapid.OneOf(
			rapid.SampledFrom([]string{task.Mark, task.Mark[:len(task.Mark)/2], task.Mark[len(task.Mark)/2:], "\x00", "\r", "\x1b", "[...]", "\xff", "="}),
			rapid.String(),
		)
		for i := range task.Answers {
			task.Answers[i].Text = strings.Join(rapid.SliceOf(piece).Draw(t, "text"), "")
		}
		user := userMessage(t, task)

		empty := task
		empty.Answers = []answer{{Number: 1, Label: "agent1.2"}, {Number: 3, Label: "agent3.1"}}
		require.Equal(t, strings.Count(userMessage(t, empty), task.Mark), strings.Count(user, task.Mark))
		for _, a := range task.Answers {
			require.Equal(t, 1, strings.Count(user, fmt.Sprintf("=== %s begin %s ===\n", task.Mark, a.Label)))
			require.Equal(t, 1, strings.Count(user, fmt.Sprintf("\n=== %s end %s ===", task.Mark, a.Label)))
		}
		require.NotContains(t, user, "\x00")
		require.NotContains(t, user, "\r")
		require.NotContains(t, user, "\x1b")
		require.True(t, utf8.ValidString(user))
	})
}

// All texts together fit: short texts are complete, long ones share the rest, and every truncation
// is marked.
func TestFrame_bounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		task := evaluation()
		task.Answers = nil
		task.Window = rapid.SampledFrom([]int{0, 4096, 8192, 32_768, 128_000, 163_840, 1_000_000}).Draw(t, "window")
		most := maxShown
		if task.Window > 0 {
			most = min(most, task.Window/4*3) // a quarter, at three bytes a token
		}
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 2000), rapid.IntRange(1, 3*maxShown)), 1, 8).Draw(t, "sizes")
		for i, size := range sizes {
			task.Answers = append(task.Answers, answer{
				Number: i + 1, Label: fmt.Sprintf("agent%d.1", i+1),
				Text: strings.Repeat("é", (size+1)/2),
			})
		}
		user := userMessage(t, task)
		total := 0
		for _, a := range task.Answers {
			_, rest, _ := strings.Cut(user, fmt.Sprintf("begin %s ===\n", a.Label))
			text, _, ok := strings.Cut(rest, fmt.Sprintf("\n=== %s end %s ===", testMark, a.Label))
			require.True(t, ok)
			require.True(t, utf8.ValidString(text))
			require.True(t, strings.HasPrefix(a.Text, text))
			total += len(text)
			note := fmt.Sprintf("%s is cut: its first %d of %d bytes are shown.", a.Label, len(text), len(a.Text))
			require.Equal(t, len(text) < len(a.Text), strings.Contains(user, note))
			if len(a.Text) <= most/len(sizes) {
				require.Equal(t, a.Text, text, "an answer within its even share is whole")
			}
		}
		require.LessOrEqual(t, total, most)
		if strings.Contains(user, " is cut: ") {
			require.Greater(t, total, most-4*len(sizes), "nothing is cut for no reason")
		}
	})
}

// What the agents of a wave share comes first; each agent's own words are behind it.
func TestOpening_shared(t *testing.T) {
	t.Parallel()
	open := func(persona, query string) (shared, own string) {
		task := evaluation()
		task.Persona, task.Query = persona, query
		messages, err := newRules(task).Opening()
		require.NoError(t, err)
		require.NotContains(t, messages[1].Content, boundary)
		return messages[1].Content[:messages[1].Shared], messages[1].Content[messages[1].Shared:]
	}
	one, careful := open("You are careful.", "Which?")
	other, bold := open("You are bold.", "Which?")
	require.Equal(t, one, other)
	require.Contains(t, one, evaluation().Answers[0].Text)
	require.Contains(t, careful, "You are careful.")
	require.NotContains(t, one+bold, "You are careful.")
	short, _ := open("You are bold.", "Which\x00?")
	require.Less(t, len(short), len(one), "a query with a NUL is shared up to it")
}
