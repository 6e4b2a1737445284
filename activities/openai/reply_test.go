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

// choice wraps a message and a finish reason into a response.
func choice(finish, message string) string {
	return `{"choices":[{"index":0,"finish_reason":` + finish + `,"message":` + message + `}],"usage":{"prompt_tokens":9}}`
}

const cutCall = `{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function",
	"function":{"name":"add","arguments":"{\"a\":2"}}]}`

func TestReply_contents(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) []llm.ToolCall {
		return []llm.ToolCall{{ID: id, Name: name, Arguments: arguments}}
	}
	for name, tc := range map[string]struct {
		body string
		want llm.Message
	}{
		"text":                  {choice(`"stop"`, `{"role":"assistant","content":"hi"}`), llm.Message{Content: "hi"}},
		"an error that is none": {`{"error":"",` + choice(`"stop"`, `{"content":"hi"}`)[1:], llm.Message{Content: "hi"}},
		"no finish_reason, but text": {
			choice(`null`, `{"role":"assistant","content":"hi"}`), llm.Message{Content: "hi"},
		},
		"text in parts": {
			choice(`"stop"`, `{"content":[{"type":"thinking","thinking":"?"},{"type":"text","text":"h"},{"type":"text","text":"i"}]}`),
			llm.Message{Content: "hi"},
		},
		"an empty reply is a reply": {choice(`"stop"`, `{"role":"assistant","content":""}`), llm.Message{}},
		"content null beside calls": {
			choice(`"tool_calls"`, `{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]}`),
			llm.Message{ToolCalls: call("a", "add", "{}")},
		},
		"calls with finish_reason stop": {
			choice(`"stop"`, `{"content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}}]}`),
			llm.Message{ToolCalls: call("a", "add", "{}")},
		},
		"a call without id or type": {
			choice(`"tool_calls"`, `{"content":null,"tool_calls":[{"function":{"name":"add","arguments":"{}"}}]}`),
			llm.Message{ToolCalls: call("", "add", "{}")},
		},
		"arguments as the model wrote them": {
			choice(`"tool_calls"`, `{"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{\"a\" : 4, nonsense"}}]}`),
			llm.Message{ToolCalls: call("a", "add", `{"a" : 4, nonsense`)},
		},
		"arguments as an object": {
			choice(`"tool_calls"`, `{"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":{"a":4}}}]}`),
			llm.Message{ToolCalls: call("a", "add", `{"a":4}`)},
		},
		"reasoning_content is kept for the way back, unknown fields are not": {
			choice(`"stop"`, `{"content":"hi","reasoning_content":"because","annotations":[],"mood":"good","reasoning":null}`),
			llm.Message{Content: "hi", Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"because"`)}},
		},
		"a thought signature is kept with its call": {
			choice(`"tool_calls"`, `{"tool_calls":[{"id":"a","index":0,"type":"function","function":{"name":"add","arguments":"{}"},
				"extra_content":{"google":{"thought_signature":"sig=="}}}]}`),
			llm.Message{ToolCalls: []llm.ToolCall{{ID: "a", Name: "add", Arguments: "{}", Extra: map[string]json.RawMessage{
				"extra_content": json.RawMessage(`{"google":{"thought_signature":"sig=="}}`),
			}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{}, rawFields(200, tc.body))
				reply, err := client.Generate(t.Context(), hello)
				require.NoError(t, err)
				tc.want.Role = llm.Assistant
				require.Equal(t, tc.want, reply.Message)
			})
		})
	}
}

func TestReply_invalidOnes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		kind llm.Kind
		says string
	}{
		"no choices":             {`{"choices":[]}`, llm.BadReply, "no choices"},
		"null choices":           {`{"choices":null}`, llm.BadReply, "no choices"},
		"no message":             {`{"choices":[{"finish_reason":"stop"}]}`, llm.BadReply, "no message"},
		"null message":           {choice(`"stop"`, `null`), llm.BadReply, "no message"},
		"not JSON":               {`<html>It works!</html>`, llm.BadReply, "It works!"},
		"half JSON":              {`{"choices":[{"mess`, llm.BadReply, "not JSON"},
		"a list":                 {`[]`, llm.BadReply, "not JSON"},
		"empty":                  {``, llm.BadReply, "not JSON"},
		"nothing, no reason":     {choice(`null`, `{"content":null}`), llm.BadReply, "empty"},
		"cut call, no reason":    {choice(`null`, cutCall), llm.BadReply, "cut off"},
		"cut call":               {choice(`"length"`, cutCall), llm.BadReply, "raise max_tokens"},
		"cut text":               {choice(`"length"`, `{"content":"The answer is"}`), llm.BadReply, "raise max_tokens"},
		"nameless call":          {choice(`"tool_calls"`, `{"tool_calls":[{"id":"a","function":{"arguments":"{}"}}]}`), llm.BadReply, "names no function"},
		"cut text, Anthropic":    {choice(`"max_tokens"`, `{"content":"The"}`), llm.BadReply, "raise max_tokens"},
		"unreadable call":        {choice(`"malformed_function_call"`, `{"content":null}`), llm.BadReply, "cannot read"},
		"aborted":                {choice(`"abort"`, `{"content":"The"}`), llm.BadReply, "broke the reply off"},
		"broken off":             {choice(`"error"`, `{"content":"The"}`), llm.BadReply, "broke the reply off"},
		"refusal":                {choice(`"stop"`, `{"content":null,"refusal":"I would rather not."}`), llm.ContentPolicy, "I would rather not."},
		"content filter":         {choice(`"content_filter"`, `{"content":"The"}`), llm.ContentPolicy, "content filter"},
		"an error, 200":          {`{"error":{"message":"out of cheese"}}`, llm.BadReply, "out of cheese"},
		"an error in words, 200": {`{"error":"model is overloaded"}`, llm.Overloaded, "model is overloaded"},
		"an error object, 200":   {`{"object":"error","message":"slow down","code":429}`, llm.RateLimited, "slow down"},
		"an error 401, 200":      {`{"error":{"code":401,"message":"No auth"}}`, llm.AuthFailed, "No auth"},
		"an error 429, 200":      {`{"error":{"code":429,"message":"slow down"},"choices":[]}`, llm.RateLimited, "slow down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{}, rawFields(200, tc.body))
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

func TestReply_usage(t *testing.T) {
	t.Parallel()
	cost, half := 0.0125, 0.5
	for name, tc := range map[string]struct {
		usage string
		want  llm.Usage
	}{
		"everything": {
			`{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"cost":0.0125,
				"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":7}}`,
			llm.Usage{InputTokens: 100, CachedInputTokens: 64, OutputTokens: 20, ReasoningTokens: 7, TotalUSD: &cost, ModelCalls: 1},
		},
		"cache of DeepSeek": {`{"prompt_tokens":5,"prompt_cache_hit_tokens":4}`, llm.Usage{InputTokens: 5, CachedInputTokens: 4, ModelCalls: 1}},
		"cache of Moonshot": {`{"prompt_tokens":5,"cached_tokens":4}`, llm.Usage{InputTokens: 5, CachedInputTokens: 4, ModelCalls: 1}},
		"thoughts apart, at xAI": {
			`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}`,
			llm.Usage{InputTokens: 32, OutputTokens: 103, ReasoningTokens: 94, ModelCalls: 1},
		},
		"thoughts apart, at Gemini": {
			`{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}`,
			llm.Usage{InputTokens: 20, OutputTokens: 603, ReasoningTokens: 405, ModelCalls: 1},
		},
		"a total that is too small": {
			`{"prompt_tokens":20,"completion_tokens":198,"total_tokens":20}`, llm.Usage{InputTokens: 20, OutputTokens: 198, ModelCalls: 1},
		},
		"a total alone": {`{"total_tokens":20}`, llm.Usage{ModelCalls: 1}},
		"cost of xAI":   {`{"prompt_tokens":5,"cost_in_usd_ticks":5000000000}`, llm.Usage{InputTokens: 5, TotalUSD: &half, ModelCalls: 1}},
		"tokens only":   {`{"prompt_tokens":5,"completion_tokens":2}`, llm.Usage{InputTokens: 5, OutputTokens: 2, ModelCalls: 1}},
		"null details":  {`{"prompt_tokens":5,"prompt_tokens_details":null,"cost":null}`, llm.Usage{InputTokens: 5, ModelCalls: 1}},
		"senseless":     {`{"prompt_tokens":5,"cost":"a lot"}`, llm.Usage{InputTokens: 5, ModelCalls: 1}},
		"negative cost": {`{"prompt_tokens":5,"cost":-1}`, llm.Usage{InputTokens: 5, ModelCalls: 1}},
		"null":          {`null`, llm.Usage{ModelCalls: 1}},
		"negative": {
			`{"prompt_tokens":-5,"completion_tokens":-1,"prompt_tokens_details":{"cached_tokens":-9223372036854775808}}`,
			llm.Usage{ModelCalls: 1},
		},
		"absurd": {
			`{"prompt_tokens":9223372036854775807,"completion_tokens":1e300,"cost":1e999,
				"prompt_tokens_details":{"cached_tokens":1000000000001},"completion_tokens_details":{"reasoning_tokens":99999999999999999999}}`,
			llm.Usage{InputTokens: 1e12, CachedInputTokens: 1e12, OutputTokens: 1e12, ReasoningTokens: 1e12, ModelCalls: 1},
		},
		"absurd cost":   {`{"prompt_tokens":5,"cost":1e300}`, llm.Usage{InputTokens: 5, ModelCalls: 1}},
		"not numbers":   {`{"prompt_tokens":"many","completion_tokens":[]}`, llm.Usage{ModelCalls: 1}},
		"with fraction": {`{"prompt_tokens":5.0}`, llm.Usage{InputTokens: 5, ModelCalls: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body := `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":` + tc.usage + `}`
				client, _ := serve(t, openai.Options{}, rawFields(200, body))
				reply, err := client.Generate(t.Context(), hello)
				require.NoError(t, err)
				require.Equal(t, tc.want, reply.Usage)
			})
		})
	}
}

// The server's stated cost precedes the price; uncounted calls have no cost.
func TestReply_cost(t *testing.T) {
	t.Parallel()
	price := func(u llm.Usage) float64 { return 7 }
	for name, tc := range map[string]struct {
		price  func(llm.Usage) float64
		status int
		body   string
		want   *float64
	}{
		"a price":                     {price, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":9}}`, new(7.0)},
		"of a reply of no use":        {price, 200, `{"choices":[{"finish_reason":"length","message":{"content":"hi"}}],"usage":{"prompt_tokens":9}}`, new(7.0)},
		"the server knows better":     {price, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":9,"cost":3}}`, new(3.0)},
		"the server knows it is free": {price, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":9,"cost":0}}`, new(0.0)},
		"a router, for a key of ours": {price, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],
			"usage":{"prompt_tokens":9,"cost":0.25,"is_byok":true,"cost_details":{"upstream_inference_cost":3}}}`, new(3.25)},
		"for a key of its own": {price, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],
			"usage":{"prompt_tokens":9,"cost":3,"is_byok":false,"cost_details":{"upstream_inference_cost":3}}}`, new(3.0)},
		"a router that knows its own part only": {nil, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],
			"usage":{"prompt_tokens":9,"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":null}}}`, nil},
		"a server that does not count": {price, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}]}`, nil},
		"no price":                     {nil, 200, `{"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":9}}`, nil},
		"no call":                      {price, 400, `{}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, _ := serve(t, openai.Options{Price: tc.price}, rawFields(tc.status, tc.body))
				reply, _ := client.Generate(t.Context(), hello)
				require.Equal(t, tc.want, reply.Usage.TotalUSD)
			})
		})
	}
}

func TestReply_uselessOnesCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, w := serve(t, openai.Options{}, rawFields(200, choice(`"length"`, cutCall)))
		reply, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.True(t, failed.Cut)
		require.Equal(t, llm.Usage{InputTokens: 9, ModelCalls: 1}, reply.Usage)
		require.Len(t, w.seen(), 1, "a bad reply is not asked for again here: each costs")
	})
}

func TestReply_isBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := serve(t, openai.Options{}, rawFields(200, `{"choices":["`+strings.Repeat("x", 33<<20)))
		_, err := client.Generate(t.Context(), hello)
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.BadReply, failed.Kind)
		require.Contains(t, failed.Message, "larger than 32 MiB")
		require.Less(t, len(failed.Message), 700)
	})
}
