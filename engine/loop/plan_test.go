package loop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

// talk builds a conversation.
type talk struct{ History }

func (c *talk) fixed(role llm.Role, text string) *talk {
	c.Append(true, llm.Message{Role: role, Content: text})
	return c
}

func (c *talk) add(messages ...llm.Message) *talk {
	c.Append(false, messages...)
	return c
}

// turn adds a reply that calls a tool, and its result.
func (c *talk) turn(tool string, result int) *talk {
	call := llm.ToolCall{ID: fmt.Sprintf("c%d", len(c.Messages)), Name: tool, Arguments: `{"path":"a.md"}`}
	return c.add(llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call}}, call.Result(strings.Repeat("x", result)))
}

func (c *talk) turns(n, result int) *talk {
	for range n {
		c.turn("read_file", result)
	}
	return c
}

func begun() *talk {
	return (&talk{}).fixed(llm.System, "You are an agent.").fixed(llm.User, "How many moons has Mars?")
}

func TestNext(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		talk   *talk
		tokens int
		want   string
	}{
		"nothing is known of the window":             {begun().turns(100, 5000), 0, ""},
		"there is room":                              {begun().turns(10, 1000), 8192, ""},
		"old results, from the oldest":               {begun().turns(10, 1400).turns(1, 10), 8192, "elide 3 5 7 9 11"},
		"results that are no bulk stay":              {begun().turns(10, 10).turns(8, 2350), 12000, "elide 23 25 27 29"},
		"the latest results are not old":             {begun().turns(2, 100).turns(6, 2500), 8192, "elide 7 9 11"},
		"the last is never old":                      {begun().turns(1, 100).turns(1, 15000), 8192, ""},
		"eliding is not enough":                      {begun().turns(40, 390), 8192, "compact before 70"},
		"one result crowds out the rest":             {begun().turns(3, 100).turns(1, 60000), 8192, "elide 9"},
		"one turn, and nothing that could be elided": {begun().add(llm.Message{Role: llm.Assistant, Content: strings.Repeat("x", 60000)}), 8192, ""},
		"fixed messages are not touched":             {begun().fixed(llm.User, strings.Repeat("x", 60000)), 8192, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			elide, before := tt.talk.Next(tt.tokens, nil)
			got := ""
			if len(elide) > 0 {
				got = "elide"
			}
			for _, e := range elide {
				got += fmt.Sprintf(" %d", e.Message)
			}
			if before > 0 {
				got += fmt.Sprintf("compact before %d", before)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// An elision frees enough room for several calls, so that the server's cache remains valid in
// between.
func TestNext_seldom(t *testing.T) {
	t.Parallel()
	c := begun()
	elided, replies := 0, 0
	for range 200 {
		c.turn("read_file", 900)
		replies++
		for elide, before := c.Next(16384, nil); len(elide) > 0 || before > 0; elide, before = c.Next(16384, nil) {
			if before > 0 {
				c.Compact(before, []llm.Message{{Role: llm.User, Content: "notes"}})
			}
			c.Elide(elide)
			elided++
		}
	}
	require.Positive(t, elided)
	require.Less(t, elided, replies/6)
}

func TestTooLong(t *testing.T) {
	t.Parallel()
	c := begun().fixed(llm.User, strings.Repeat("x", 40000)).turns(3, 20000)
	require.NoError(t, c.TooLong(0, nil), "nothing is known")
	require.NoError(t, c.TooLong(16384, nil))
	err := c.TooLong(8192, nil)
	var failed *llm.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, llm.ContextTooLong, failed.Kind)
	require.ErrorContains(t, err, "the context window of 8,192 tokens")
	require.ErrorContains(t, err, "10,022 of them cannot be left out")
	require.ErrorContains(t, err, "context_window")
	tools := []llm.Tool{{Name: "x", Parameters: []byte(strings.Repeat("x", 40000))}}
	require.Error(t, c.TooLong(16384, tools), "tools count")
}
