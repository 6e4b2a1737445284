package loop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func TestElide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 6172) + "x" // 12,345 bytes
	write, err := json.Marshal(map[string]string{"path": "a.md", "content": long})
	require.NoError(t, err)
	call := llm.ToolCall{ID: "c", Name: "write_file", Arguments: string(write)}
	signed := call
	signed.ID, signed.Extra = "s", map[string]json.RawMessage{"extra_content": json.RawMessage(`{}`)}
	broken := llm.ToolCall{ID: "b", Name: "write_file", Arguments: string(write[:len(write)-1])}
	before := []llm.Message{
		{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call, signed, broken}},
		call.Result(long), signed.Result(long), broken.Result("short"),
		{Role: llm.User, Content: "[Images from screenshot, call c]", Images: []llm.Image{{}, {}}},
		{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call}, Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`""`)}},
		llm.ToolCall{ID: "c"}.Result(long),
	}
	kept := asJSON(t, before)
	h := History{Messages: before}
	h.Elide([]Elision{{Message: 0}, {Message: 1}, {Message: 2, Shown: 7}, {Message: 3, Shown: 900}, {Message: 4}, {Message: 5}, {Message: -1}, {Message: 99}})
	after := h.Messages
	require.Equal(t, kept, asJSON(t, before), "the messages are not changed in place")

	require.JSONEq(t, `{"path":"a.md","content":"[12,347 bytes, left out of this record after the call was made with all of them]"}`, after[0].ToolCalls[0].Arguments)
	require.Equal(t, before[0].ToolCalls[1:], after[0].ToolCalls[1:], "calls that are signed, or no JSON, stay")
	require.Equal(t, "[result of write_file elided to make room: 12,345 bytes; get what you need of it anew]", after[1].Content)
	require.Equal(t, "c", after[1].ToolCallID)
	require.Equal(t, "ééé\n[the rest of this result of write_file is elided: it has 12,345 bytes, for which the context window has no room; ask for less at a time]", after[2].Content)
	require.Equal(t, "short", after[3].Content)
	require.Empty(t, after[4].Images)
	require.Equal(t, "[Images from screenshot, call c] [2 elided to make room; have them made anew if you need them]", after[4].Content)
	require.Equal(t, before[5], after[5], "a reply with provider fields stays")
	require.Equal(t, before[6], after[6])
	h.Elide([]Elision{{Message: 0}, {Message: 4}, {Message: 5}})
	require.Equal(t, asJSON(t, after), asJSON(t, h.Messages), "twice is once")
}

func asJSON(t require.TestingT, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

func TestCompact(t *testing.T) {
	t.Parallel()
	c := begun().turns(2, 10).fixed(llm.User, "agent2 has a new answer").turns(2, 10)
	notes := []llm.Message{{Role: llm.User, Content: "notes"}}
	h := c.History
	h.Compact(7, notes)
	require.Equal(t, append(append(append([]llm.Message{}, c.Messages[:2]...), c.Messages[6], notes[0]), c.Messages[7:]...), h.Messages)
	for i := range h.Messages {
		require.Equal(t, i < 3, h.isFixed(i), "message %d", i)
	}

	h.Compact(4, []llm.Message{{Role: llm.User, Content: "later notes"}})
	require.Equal(t, "later notes", h.Messages[3].Content, "earlier notes are replaced, too")
	require.Len(t, h.Messages, 8)

	h = c.History
	h.Compact(99, notes)
	require.Len(t, h.Messages, 4)
}
