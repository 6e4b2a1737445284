package chat

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/files/artifact"
	"conclave/engine/llm/wire"
)

func TestModelName(t *testing.T) {
	t.Parallel()
	for team, model := range map[string]string{"default": "conclave", "reviewers": "conclave/reviewers"} {
		require.Equal(t, model, ModelName(team))
	}
}

func TestConversation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		messages     string
		query        string
		instructions string
		history      []artifact.Turn
		err          string
	}{
		"a query": {messages: `[{"role":"user","content":"Tabs?"}]`, query: "Tabs?"},
		"instructions": {
			messages: `[{"role":"system","content":"Be brief."},{"role":"developer","content":"In French."},{"role":"user","content":"Tabs?"}]`,
			query:    "Tabs?", instructions: "Be brief.\n\nIn French.",
		},
		"parts": {messages: `[{"role":"user","content":[{"type":"text","text":"Tabs"},{"type":"text","text":"or spaces?"}]}]`, query: "Tabs\nor spaces?"},
		"turns": {
			messages: `[{"role":"user","content":"1+1?"},{"role":"assistant","content":"2"},{"role":"user","content":"and one more?"},{"role":"assistant","content":"3"},{"role":"user","content":"Sure?"}]`,
			query:    "Sure?", history: []artifact.Turn{{Query: "1+1?", Answer: "2"}, {Query: "and one more?", Answer: "3"}},
		},
		"user messages in a row": {messages: `[{"role":"user","content":"Here is a file."},{"role":"user","content":"Review it."}]`, query: "Review it.", history: []artifact.Turn{{Query: "Here is a file."}}},
		"two in a row earlier": {
			messages: `[{"role":"user","content":"A"},{"role":"user","content":"B"},{"role":"assistant","content":"C"},{"role":"user","content":" "},{"role":"user","content":"D"}]`,
			query:    "D", history: []artifact.Turn{{Query: "A"}, {Query: "B", Answer: "C"}},
		},
		"a blank query": {messages: `[{"role":"user","content":"A"},{"role":"user","content":""}]`, err: "the last user message, which is the query, has no text"},
		"tools of an earlier turn": {
			messages: `[{"role":"user","content":"Weather?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"c1","content":"sun"},{"role":"assistant","content":"Sunny."},{"role":"user","content":"And tomorrow?"}]`,
			query: "And tomorrow?", history: []artifact.Turn{{Query: "Weather?", Answer: "call: f {}\n\nresult: sun\n\nSunny."}},
		},
		"a greeting":    {messages: `[{"role":"assistant","content":"Hello!"},{"role":"user","content":"Tabs?"}]`, query: "Tabs?"},
		"a reply last":  {messages: `[{"role":"user","content":"Tabs?"},{"role":"assistant","content":"Yes"}]`, err: "end with a user message"},
		"no text":       {messages: `[{"role":"user","content":"  "}]`, err: "the last user message, which is the query, has no text"},
		"only a system": {messages: `[{"role":"system","content":"Be brief."}]`, err: "the last user message, which is the query, has no text"},
		"an odd role":   {messages: `[{"role":"narrator","content":"x"}]`, err: `message 1 has the role "narrator"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			query, instructions, history, err := splitMessages(decoded(t, strings.Trim(tc.messages, "[]")))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.query, query.Text)
			require.Equal(t, tc.instructions, instructions)
			require.Equal(t, tc.history, history)
		})
	}
}

// A parameter that a team cannot honour is refused by its name; one that only tunes a
// model has no effect.
func TestDecode(t *testing.T) {
	t.Parallel()
	const start = `{"model":"conclave","messages":[{"role":"user","content":"Tabs?"}]`
	for _, accepted := range []string{
		``, `,"temperature":0.3,"max_tokens":20,"seed":7,"user":"u","n":1,"logprobs":false`, `,"response_format":{"type":"text"}`,
		`,"stream":true,"stream_options":{"include_usage":true}`, `,"metadata":{"session_id":"s1"}`, `,"functions":null`,
	} {
		_, err := completions{}.decode([]byte(start + accepted + `}`))
		require.NoError(t, err, accepted)
	}
	for rest, param := range map[string]string{
		`,"n":3}`: "n", `,"response_format":{"type":"json_schema"}}`: "response_format", `,"functions":[{}]}`: "functions",
		`,"audio":{}}`: "modalities", `,"modalities":["audio"]}`: "modalities", `,"web_search_options":{}}`: "web_search_options", `,"logprobs":true}`: "logprobs",
	} {
		_, err := completions{}.decode([]byte(start + rest))
		refused, ok := errors.AsType[*gateway.Refusal](err)
		require.True(t, ok, rest)
		require.Equal(t, param, refused.Param)
		require.Equal(t, http.StatusBadRequest, refused.Status)
	}
	for body, want := range map[string]string{
		`{`:                                "the body is not JSON: unexpected end of JSON input",
		`[]`:                               "the body is of type array; give one of type object",
		`{"model":"x"}`:                    "no messages",
		`{"messages":[{}]}`:                "no model",
		`{"model":"x","metadata":{"a":1}}`: "a value of metadata is of type number; give strings",
		`{"model":"x","metadata":3}`:       "the value of metadata is of type number; give one of type object",
		`{"messages":["x"]}`:               "the value of messages is of type string; give one of type object",
		`{"model":"x","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":""}}]}]}`: `a part of the type "input_audio"`,
	} {
		_, err := completions{}.decode([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	with := func(depth string, in request) error {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if depth != "" {
			r.Header.Set(depthHeader, depth)
		}
		_, err := sessionInput(r, in)
		return err
	}
	says := func(role, text string) message { return message{role: role, Content: wire.Content{Text: text}} }
	ask := request{messages: []message{says("user", "Tabs?")}}
	require.NoError(t, with("", ask))
	require.NoError(t, with("3", ask))
	require.ErrorContains(t, with("4", ask), "does a team ask itself?")
	require.ErrorContains(t, with("-1", ask), "not a whole number")
	require.ErrorContains(t, with("x", ask), "not a whole number")
	long := request{messages: []message{says("user", strings.Repeat("x", 3<<20)), says("assistant", strings.Repeat("y", 1<<20)), says("user", "And?")}}
	err := with("", long)
	refused, ok := errors.AsType[*gateway.Refusal](err)
	require.True(t, ok)
	require.Equal(t, "context_length_exceeded", refused.Code)
	long.messages[1].Text = "y"
	require.NoError(t, with("", long))
}

// The key of a caller names the same session in every process, and never that of another
// caller.
func TestSessionID(t *testing.T) {
	t.Parallel()
	id := func(name, key, session string) (string, error) {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		return sessionID(r, access.Caller{Name: name}, request{metadata: map[string]string{"session_id": session}})
	}
	none, err := id("", "", "")
	require.NoError(t, err)
	require.Empty(t, none)
	first, err := id("alice", "k 1", "")
	require.NoError(t, err)
	again, _ := id("alice", "k 1", "")
	require.Equal(t, first, again)
	other, _ := id("bob", "k 1", "")
	require.NotEqual(t, first, other)
	named, err := id("alice", "k 1", "release-42")
	require.NoError(t, err)
	require.Equal(t, "release-42", named)
	_, err = id("alice", "", "../x")
	require.ErrorContains(t, err, "x")
	_, err = id("alice", strings.Repeat("k", maxKey+1), "")
	require.ErrorContains(t, err, "Idempotency-Key has 257 bytes")
}

func TestHashOf(t *testing.T) {
	t.Parallel()
	same := hashOf([]byte(`{"model":"conclave","messages":[{"role":"user","content":"Tabs?"}]}`))
	require.Equal(t, same, hashOf([]byte(` {"messages":[{"content":"Tabs?", "role":"user"}],"stream":true,"stream_options":{},"model":"conclave"}`)))
	require.NotEqual(t, same, hashOf([]byte(`{"model":"conclave","messages":[{"role":"user","content":"Spaces?"}]}`)))
	require.NotEqual(t, same, hashOf([]byte(`{"model":"conclave/x","messages":[{"role":"user","content":"Tabs?"}]}`)))
}

func TestReadBody_bounds(t *testing.T) {
	t.Parallel()
	read := func(size int) error {
		_, err := readBody(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", size))))
		return err
	}
	require.NoError(t, read(maxBody))
	err := read(maxBody + 1)
	refused, ok := errors.AsType[*gateway.Refusal](err)
	require.True(t, ok)
	require.Equal(t, http.StatusRequestEntityTooLarge, refused.Status)
}
