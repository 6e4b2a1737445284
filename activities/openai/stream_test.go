package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// readEvents returns a stream of chunks with the end mark.
func readEvents(chunks ...string) string { return cutStream(chunks...) + "data: [DONE]\n\n" }

// cutStream returns a stream that breaks off after the chunks.
func cutStream(chunks ...string) string {
	var b strings.Builder
	for _, chunk := range chunks {
		b.WriteString("data: " + chunk + "\n\n")
	}
	return b.String()
}

// delta returns a chunk of the first choice.
func delta(fields string) string {
	return `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{` + fields + `},"finish_reason":null}]}`
}

// end returns the chunk with the finish reason.
func end(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// calls returns a chunk with fragments of tool calls.
func calls(fragments string) string { return delta(`"tool_calls":[` + fragments + `]`) }

// streamedCase is a stream and its message.
type streamedCase struct {
	body string
	want llm.Message
}

func (tc streamedCase) check(t *testing.T) {
	t.Helper()
	client, _ := serve(t, openai.Options{}, rawFields(200, tc.body, "Content-Type", "text/event-stream; charset=utf-8"))
	reply, err := client.Generate(t.Context(), hello)
	require.NoError(t, err)
	tc.want.Role = llm.Assistant
	require.Equal(t, tc.want, reply.Message)
	require.Equal(t, int64(1), reply.Usage.ModelCalls)
}

// Some servers stream unasked.
func TestStream_text(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]streamedCase{
		"text": {
			readEvents(delta(`"role":"assistant","content":""`), delta(`"content":"h"`), delta(`"content":null`), delta(`"content":"i"`), end("stop")),
			llm.Message{Content: "hi"},
		},
		"an error that is none": {
			readEvents(`{"error":{},`+delta(`"content":"hi"`)[1:], end("stop")), llm.Message{Content: "hi"},
		},
		"no end mark, but a finish reason": {
			cutStream(delta(`"content":"hi"`), end("stop")), llm.Message{Content: "hi"},
		},
		"no finish reason, but the end mark": {
			readEvents(delta(`"content":"hi"`)), llm.Message{Content: "hi"},
		},
		"no blank line at the end": {
			strings.TrimSpace(readEvents(delta(`"content":"hi"`))), llm.Message{Content: "hi"},
		},
		"comments, event names, CRLF, no space, data on two lines": {
			": keep-alive\r\n\r\nevent: message\r\nid: 7\r\ndata:" + delta(`"content":"h"`) + "\r\n\r\n" +
				"data: {\"choices\":[{\"index\":0,\r\n:\r\ndata: \"delta\":{\"content\":\"i\"}}]}\r\n\r\ndata:[DONE]\r\n\r\n",
			llm.Message{Content: "hi"},
		},
		"data after the end mark is not read": {
			readEvents(delta(`"content":"hi"`)) + "data: bye\n\n", llm.Message{Content: "hi"},
		},
		"content in parts": {
			readEvents(delta(`"content":[{"type":"text","text":"h"}]`), delta(`"content":[{"type":"text","text":"i"}]`), end("stop")),
			llm.Message{Content: "hi"},
		},
		"content in parts and as text": {
			readEvents(delta(`"content":""`), delta(`"content":"o"`), delta(`"content":[{"type":"thinking","thinking":"?"}]`), delta(`"content":""`),
				delta(`"content":"h"`), delta(`"content":"i"`), delta(`"content":[ ]`), delta(`"content":[{"type":"text","text":"!"}]`), end("stop")),
			llm.Message{Content: "ohi!"},
		},
		"the whole message once more at the end": {
			readEvents(delta(`"content":"h"`), delta(`"content":"i"`), choice(`"stop"`, `{"content":"hi"}`)),
			llm.Message{Content: "hi"},
		},
		"nothing at all is a reply": {readEvents(delta(`"role":"assistant","content":""`), end("stop")), llm.Message{}},
		"another choice is not mixed in": {
			readEvents(delta(`"content":"hi"`), `{"choices":[{"index":1,"delta":{"content":"ho"}}]}`, end("stop")),
			llm.Message{Content: "hi"},
		},
		"the whole completion as one event": {
			readEvents(choice(`"stop"`, `{"content":"hi"}`)), llm.Message{Content: "hi"},
		},
		"thoughts are kept for the way back": {
			readEvents(delta(`"reasoning_content":"be"`), delta(`"reasoning_content":"cause"`),
				delta(`"reasoning_details":[ ]`), delta(`"reasoning_details":[{"n":1}]`), delta(`"reasoning_details":[]`), delta(`"reasoning_details":[{"n":2}]`), delta(`"reasoning_content":null,"content":"hi"`), end("stop")),
			llm.Message{Content: "hi", Extra: map[string]json.RawMessage{
				"reasoning_content": json.RawMessage(`"because"`), "reasoning_details": json.RawMessage(`[{"n":1},{"n":2}]`),
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, tc.check)
		})
	}
}

// Servers differ in the indexes and IDs of a call's fragments.
//
//nolint:funlen // one table
func TestStream_calls(t *testing.T) {
	t.Parallel()
	add := func(id, arguments string) llm.ToolCall {
		return llm.ToolCall{ID: id, Name: "add", Arguments: arguments}
	}
	for name, tc := range map[string]streamedCase{
		"a call in fragments": {
			readEvents(calls(`{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}`),
				calls(`{"index":0,"function":{"arguments":"{\"a\""}}`), calls(`{"index":0,"id":"","function":{"name":null,"arguments":":2}"}}`),
				end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{"a":2}`)}},
		},
		"an id that changes on the way is another call": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}`),
				calls(`{"index":0,"id":"b","function":{"name":"add","arguments":"{}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`), add("b", `{}`)}},
		},
		"an id of its own in every fragment": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":""}}`),
				calls(`{"index":0,"id":"x","function":{"arguments":"{\"a\""}}`), calls(`{"index":0,"id":"y","function":{"arguments":":2}"}}`),
				calls(`{"index":0,"id":"z","function":{"arguments":""}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{"a":2}`)}},
		},
		"the same without index": {
			readEvents(calls(`{"id":"a","function":{"name":"add","arguments":"{"}}`), calls(`{"id":"x","function":{"arguments":"}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`)}},
		},
		"fragments of two calls in turn, distinguished by ID": {
			readEvents(calls(`{"id":"a","function":{"name":"add","arguments":"{"}},{"id":"b","function":{"name":"add","arguments":"[1"}}`),
				calls(`{"id":"a","function":{"arguments":"}"}}`), calls(`{"id":"b","function":{"arguments":"]"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`), add("b", `[1]`)}},
		},
		"id and name repeated in every fragment": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{"}}`),
				calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`)}},
		},
		"fragments of two calls in turn": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{"}},{"index":1,"id":"b","function":{"name":"add","arguments":"[1"}}`),
				calls(`{"index":0,"function":{"arguments":"}"}}`), calls(`{"index":1,"function":{"arguments":"]"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`), add("b", `[1]`)}},
		},
		"whole calls in one chunk, no index": {
			readEvents(calls(`{"id":"a","function":{"name":"add","arguments":"{}"}},{"id":"b","function":{"name":"add","arguments":"{}"}}`), end("stop")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`), add("b", `{}`)}},
		},
		"two calls under one index": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}`),
				calls(`{"index":0,"id":"b","function":{"name":"add","arguments":"{"}}`), calls(`{"index":0,"function":{"arguments":"}"}}`),
				end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`), add("b", `{}`)}},
		},
		"fragments without index": {
			readEvents(calls(`{"id":"a","function":{"name":"add","arguments":"{"}}`), calls(`{"function":{"arguments":"}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`)}},
		},
		"neither index nor id, a new name": {
			readEvents(calls(`{"function":{"name":"add","arguments":"{}"}}`), calls(`{"function":{"name":"now","arguments":"{}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("", `{}`), {Name: "now", Arguments: "{}"}}},
		},
		"neither index nor id, the same name once more": {
			readEvents(calls(`{"function":{"name":"add","arguments":"{\"a\":1}"}}`), calls(`{"function":{"name":"add","arguments":"{\"a\":2}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("", `{"a":1}`), add("", `{"a":2}`)}},
		},
		"arguments as an object": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":{"a":4}}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{"a":4}`)}},
		},
		"the whole call once more": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\":2}"}}`),
				calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\":2}"}}`),
				calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\":2}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{"a":2}`)}},
		},
		"fragments, then the whole call": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\""}}`), calls(`{"index":0,"function":{"arguments":":2}"}}`),
				calls(`{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":"{ \"a\": 2 }"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{"a":2}`)}},
		},
		"the arguments once more, without a name": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}`), calls(`{"index":0,"function":{"arguments":"{}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`)}},
		},
		"the whole call once more at the end, beside another": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}`), calls(`{"index":1,"id":"b","function":{"name":"add","arguments":"{}"}}`),
				calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"add","arguments":"{}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{}`), add("b", `{}`)}},
		},
		"a fragment that is complete by itself": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\":"}}`), calls(`{"index":0,"function":{"arguments":"{}"}}`),
				calls(`{"index":0,"function":{"arguments":"}"}}`), end("tool_calls")),
			llm.Message{ToolCalls: []llm.ToolCall{add("a", `{"a":{}}`)}},
		},
		"a thought signature is kept with its call": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"sig=="}}}`), end("stop")),
			llm.Message{ToolCalls: []llm.ToolCall{{ID: "a", Name: "add", Arguments: "{}", Extra: map[string]json.RawMessage{
				"extra_content": json.RawMessage(`{"google":{"thought_signature":"sig=="}}`),
			}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, tc.check)
		})
	}
}

func TestStream_underAnotherContentType(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, openai.Options{}, rawFields(200, readEvents(delta(`"content":"hi"`), end("stop"))))
		reply, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, "hi", reply.Message.Content)
	})
}

func TestStream_contentTypeOfACompletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, openai.Options{}, rawFields(200, saysHi, "Content-Type", "text/event-stream"))
		reply, err := client.Generate(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, "hi", reply.Message.Content)
	})
}

func TestStream_usage(t *testing.T) {
	t.Parallel()
	const paid = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	want := llm.Usage{InputTokens: 9, OutputTokens: 2, ModelCalls: 1}
	for name, tc := range map[string]struct {
		body   string
		failed bool
	}{
		"in the last chunk": {body: readEvents(delta(`"content":"hi"`), end("stop"), paid)},
		"running totals": {body: readEvents(
			`{"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`, end("stop"), paid,
			`{"choices":[],"usage":null}`)},
		"of a reply that was cut":   {body: readEvents(delta(`"content":"hi"`), end("length"), paid), failed: true},
		"of an error in mid-stream": {body: readEvents(delta(`"content":"hi"`), paid, `{"error":{"message":"out of cheese"}}`), failed: true},
		"at Groq":                   {body: readEvents(delta(`"content":"hi"`), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":2}}}`)},
		"at Moonshot":               {body: readEvents(delta(`"content":"hi"`), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2}}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{}, rawFields(200, tc.body, "Content-Type", "text/event-stream"))
				reply, err := client.Generate(t.Context(), hello)
				require.Equal(t, tc.failed, err != nil, "%v", err)
				require.Equal(t, want, reply.Usage)
			})
		})
	}
}

func TestStream_invalidOnes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		kind llm.Kind
		says string
	}{
		"empty":                 {``, llm.Network, "ended early"},
		"early end in text":     {cutStream(delta(`"content":"The answer is"`)), llm.Network, "ended early"},
		"early end in a chunk":  {cutStream(delta(`"content":"The"`)) + `data: {"choices":[{"del`, llm.BadReply, "not JSON"},
		"early end after calls": {cutStream(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}}`)), llm.Network, "ended early"},
		"cut call, no reason":   {readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\""}}`)), llm.BadReply, "cut off"},
		"cut at the limit":      {readEvents(delta(`"content":"The"`), end("length")), llm.BadReply, "raise max_tokens"},
		"nothing":               {readEvents(), llm.BadReply, "no choices"},
		"no JSON":               {readEvents(`<html>`), llm.BadReply, "not JSON"},
		"nameless call after another": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{}"}},{"index":0,"id":"b","function":{"arguments":"{}"}}`), end("tool_calls")),
			llm.BadReply, "names no function",
		},
		"nameless call": {readEvents(calls(`{"index":0,"id":"a","function":{"arguments":"{}"}}`), end("tool_calls")), llm.BadReply, "names no function"},
		"refusal":       {readEvents(delta(`"refusal":"I would "`), delta(`"refusal":"rather not."`), end("stop")), llm.ContentPolicy, "I would rather not."},
		"error object": {
			readEvents(delta(`"content":"The"`), `{"error":{"code":"context_length_exceeded","message":"no more room"}}`), llm.ContextTooLong, "no more room",
		},
		"error event": {
			cutStream(delta(`"content":"The"`)) + "event: error\ndata: {\"message\":\"out of cheese\"}\n\n", llm.BadReply, "out of cheese",
		},
		"error field, llama.cpp": {
			cutStream(delta(`"content":"The"`)) + "error: {\"code\":500,\"message\":\"Failed to parse input at pos 3\"}\n\n", llm.BadReply, "pos 3",
		},
		"cut call at the limit": {
			readEvents(calls(`{"index":0,"id":"a","function":{"name":"add","arguments":"{\"a\":2"}}`), end("length")), llm.BadReply, "raise max_tokens",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{}, rawFields(200, tc.body, "Content-Type", "text/event-stream"))
				_, err := client.Generate(t.Context(), hello)
				failed, ok := errors.AsType[*llm.Error](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, tc.kind, failed.Kind, failed.Message)
				require.Contains(t, failed.Message, tc.says)
				require.Contains(t, failed.Message, "model m1 at models.test: ")
			})
		})
	}
}
