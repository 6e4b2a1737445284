package loop_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// offered are the tools that the replies could call.
func offered() []llm.Tool {
	var tools []llm.Tool
	for _, name := range []string{
		"new_answer", "vote", "submit", "read_file", "write_file", "edit_file", "list_files", "search_files", "run_command",
		"mcp__web__click", "mcp__files__read",
	} {
		tools = append(tools, llm.Tool{Name: name})
	}
	return tools
}

// The issue: "the whole content is one or more JSON objects {name: an offered tool, arguments |
// parameters}, bare, in one fence, or in <tool_call>/<tools> tags … brackets missing at the
// very end of a finished reply are closed".
func TestSalvage_accepts(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(accepted), 40)
	for _, w := range accepted {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			m, text := loop.Salvage(llm.Message{Content: w.content}, offered())
			require.NotEmpty(t, m.ToolCalls, w.thread)
			require.Equal(t, w.content, text)
			require.Empty(t, m.Content)
			for _, call := range m.ToolCalls {
				var arguments map[string]any
				require.NoError(t, json.Unmarshal([]byte(call.Arguments), &arguments), call.Arguments)
			}
		})
	}
}

// The issue: "Prose that quotes a call never is" one. Unknown names and unfinished calls are not
// calls either.
func TestSalvage_refuses(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(refused), 40)
	for _, w := range refused {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			reply := llm.Message{Content: w.content}
			m, text := loop.Salvage(reply, offered())
			require.Equal(t, reply, m, w.thread)
			require.Empty(t, text)
		})
	}
}

// Tags within a string are text. Only the end of a reply is completed, and an object with a
// repeated key is ambiguous.
func TestSalvage_strict(t *testing.T) {
	t.Parallel()
	const list = `{"name": "list_files", "arguments": {}}`
	for content, calls := range map[string]int{
		`<tool_call>{"name": "new_answer", "arguments": {"content": "Close it with </tool_call>."}}</tool_call>`:                   1,
		`<tool_call>{"name": "new_answer", "arguments": {"content": "It begins with <tool_call>."}}</tool_call><tool_call>` + list: 2,
		`{"name": "new_answer", "arguments": {"content": "</tools>"}}`:                                                             1,
		`<tool_call>` + list + `</tool_call><tool_call>{"name": "list_files", "arguments": {}</tool_call>`:                         2,
		`<tool_call></tool_call><tool_call>` + list + `</tool_call>`:                                                               1,
		`<tool_call>{"name": "list_files", "arguments": {}</tool_call><tool_call>` + list + `</tool_call>`:                         0,
		`<tool_call>{"name": "list_files", "arguments": {}` + "\n" + `<tool_call>` + list:                                          0,
		"```json\r\n" + list + "\r\n```":                         1,
		"```json " + list + "```":                                1,
		"```" + list + "```":                                     1,
		"```json " + list + "``` ```json " + list + "```":        0,
		"```json Call " + list + "```":                           0,
		`<tools>` + list + `</tool_call>`:                        0,
		list + `</tool_call>` + list:                             0,
		`<tool_call>` + list + `</tool_call>` + list:             0,
		`{"name": "read_file", "name": "vote", "arguments": {}}`: 0,
		`{"name": "vote", "arguments": {"agent_id": "agent1"}, "arguments": {"agent_id": "agent2"}}`:                               0,
		`{"name": "vote", "arguments": {"agent_id": "agent1", "agent_id": "agent2"}}`:                                              0,
		`{"name": "vote", "arguments": "{\"agent_id\": \"agent1\", \"agent_id\": \"agent2\"}"}`:                                    0,
		`{"name": "mcp__web__click", "arguments": {"at": [{"x": 1, "x": 2}]}}`:                                                     0,
		`{"name": "mcp__web__click", "arguments": {"at": [{"x": 1}, {"x": 2}]}}`:                                                   1,
		`{"type": "function", "function": {"name": "vote", "arguments": {}}, "function": {"name": "list_files", "arguments": {}}}`: 0,
	} {
		m, _ := loop.Salvage(llm.Message{Content: content}, offered())
		require.Len(t, m.ToolCalls, calls, content)
	}
}

// Replies with native calls and steps without tools are not changed.
func TestSalvage_notNeeded(t *testing.T) {
	t.Parallel()
	reply := llm.Message{Content: accepted[0].content}
	m, _ := loop.Salvage(reply, nil)
	require.Equal(t, reply, m)
	reply.ToolCalls = []llm.ToolCall{call("a", "vote", "{}")}
	m, _ = loop.Salvage(reply, offered())
	require.Equal(t, reply, m)
}

// All calls are found, in order and each with its own arguments.
func TestSalvage_several(t *testing.T) {
	t.Parallel()
	m, _ := loop.Salvage(llm.Message{Content: `{"name": "read_file", "arguments": {"path": "a"}}
{"name": "vote", "parameters": "{\"agent_id\": \"agent1\"}"}`}, offered())
	require.Equal(t, []llm.ToolCall{
		{Name: "read_file", Arguments: `{"path": "a"}`}, {Name: "vote", Arguments: `{"agent_id": "agent1"}`},
	}, m.ToolCalls)
}

// The loop runs salvaged calls like those of the API, and the journal contains their text.
func TestRun_salvages(t *testing.T) {
	t.Parallel()
	text := "```json\n{\"name\": \"new_answer\", \"arguments\": " + twoMoons + "}\n```"
	r := play(t, t.Context(), &team{}, says(`{"name": "read_file", "arguments": {}}`), says(text))
	require.NoError(t, r.err)
	require.Equal(t, "new_answer", r.action.Kind)
	require.Equal(t, []string{"read_file"}, r.tools.ran)
	require.Equal(t, text, r.journal.entries[2].Salvaged)
	require.Empty(t, r.journal.entries[2].Messages[0].Content)
	requireAnswered(t, r.conv.Messages)
	require.Zero(t, r.conv.Rejections)
}

// A typographic quote where JSON needs one is read as one; elsewhere it is a part of the text.
func TestSalvage_typographicQuotes(t *testing.T) {
	t.Parallel()
	for content, arguments := range map[string]string{
		`{"name": "vote", "arguments": {"agent_id": "agent2", "reason": "…”}}`:                                     `{"agent_id": "agent2", "reason": "…"}`,
		`{"name": "vote", "arguments": {"agent_id": "agent2”, "reason": "It is right."}}`:                          `{"agent_id": "agent2", "reason": "It is right."}`,
		`{"name": "vote", "arguments": {"agent_id": “agent2", "reason": "He wrote “two”, and is right.”}}`:         `{"agent_id": "agent2", "reason": "He wrote “two”, and is right."}`,
		"```json\n{„name“: „vote“, „arguments“: {„agent_id“: „agent2“}}\n```":                                      `{"agent_id": "agent2"}`,
		`<tool_call>{“name”: “vote”, “arguments”: {“agent_id”: “agent2”, “reason”: “a \"b\" "c" d” }}</tool_call>`: `{"agent_id": "agent2", "reason": "a \"b\" \"c\" d" }`,
		`{"name": "vote", "arguments": {"agent_id": "agent2", "reason": “It's “right”.”`:                           "",
		`{"name": "vote", "arguments": {"agent_id": "agent2", "reason": "He said “it is right”`:                    "",
		`{"name": "new_answer", "arguments": {"content": "{“a”: “b”}"}}`:                                           `{"content": "{“a”: “b”}"}`,
		`{“name”: “new_answer”, “arguments”: {“content”: "say “hi”, “ho”: {“x”}"}}`:                                "",
		`{“name”: “new_answer”, “arguments”: {“content”: "use {“a”} here"}}`:                                       "",
		`{“name”: “new_answer”, “arguments”: {“content”: "say “hi” to all"}}`:                                      `{"content": "say “hi” to all"}`,
		`I vote: {“name”: “vote”, “arguments”: {“agent_id”: “agent2”}}`:                                            "",
		`{“name”: “rm”, “arguments”: {“agent_id”: “agent2”}}`:                                                      "",
	} {
		m, _ := loop.Salvage(llm.Message{Content: content}, offered())
		if arguments == "" {
			require.Empty(t, m.ToolCalls, content)
			continue
		}
		require.Len(t, m.ToolCalls, 1, content)
		require.Equal(t, arguments, m.ToolCalls[0].Arguments)
	}
	require.True(t, loop.LooksLikeCall(`{“name”: “vote”, “arguments”: {“agent_id”: agent2}}`), "it is no answer")
}

// The arguments of a native call are read in the same way.
func TestRun_typographicQuotes(t *testing.T) {
	t.Parallel()
	r := play(t, t.Context(), &team{},
		says("", call("a", "read_file", `{"path": "“a”}`)),
		says("", call("b", "new_answer", `{"content": "Phobos and Deimos.”}`)))
	require.NoError(t, r.err)
	require.JSONEq(t, twoMoons, r.conv.Messages[4].ToolCalls[0].Arguments, "the next request is valid, too")
	require.Equal(t, `{"path": "“a"}`, r.conv.Messages[2].ToolCalls[0].Arguments)
}
