package chat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// Results go to their session only if nothing else follows the reply with the calls.
func TestResultsOf(t *testing.T) {
	t.Parallel()
	const (
		user   = `{"role":"user","content":"q"}`
		system = `{"role":"system","content":"s"}`
		reply  = `{"role":"assistant","content":"a"}`
		called = `{"role":"assistant","content":null,"tool_calls":[]}`
		one    = `{"role":"tool","tool_call_id":"c1","content":"1"}`
		two    = `{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"2"}]}`
	)
	first, second := coordination.ToolResult{ID: "c1", Content: "1"}, coordination.ToolResult{ID: "c2", Content: "2"}
	for messages, want := range map[string][]coordination.ToolResult{
		user:                            nil,
		user + "," + reply + "," + user: nil,
		user + "," + called + "," + one: {first},
		user + "," + called + "," + two + "," + one: {second, first},
		system + "," + user + "," + one:             {first},
		one:                                         {first},
		user + "," + called + "," + one + "," + reply + "," + user:                nil,
		user + "," + called + "," + one + "," + called + "," + two:                {second},
		user + "," + called + "," + one + "," + reply + "," + user + "," + system: nil,
	} {
		got, err := resultsOf(decoded(t, messages))
		require.NoError(t, err, messages)
		require.Equal(t, want, got, messages)
	}
	for messages, want := range map[string]string{
		user + "," + called + "," + one + "," + system:              `message 4 has the role "system" and is next to tool results; end the request with the results`,
		user + "," + called + "," + one + "," + user:                `message 4 has the role "user"`,
		user + "," + called + "," + one + "," + user + "," + system: `message 4 has the role "user"`,
		user + "," + called + "," + one + "," + user + "," + user:   `message 4 has the role "user"`,
		user + "," + called + "," + user + "," + one:                `message 3 has the role "user"`,
		user + "," + one + "," + user:                               `message 3 has the role "user"`,
		user + "," + called + "," + one + "," + two + "," + one:     `messages 3 and 5 are both the result of the call "c1"; send one`,
		user + "," + called + `,{"role":"tool","content":"1"}`:      "message 3, the result of a tool, has no tool_call_id",
		user + "," + called + `,{"role":"function","content":"1"}`:  "message 3, the result of a tool, has no tool_call_id",
	} {
		_, err := resultsOf(decoded(t, messages))
		require.ErrorContains(t, err, want, messages)
	}
}

// decoded returns the messages of a list without its brackets.
func decoded(t *testing.T, list string) []message {
	t.Helper()
	in, err := completions{}.decode([]byte(`{"model":"conclave","messages":[` + list + `]}`))
	require.NoError(t, err)
	return in.messages
}
