package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

// aimock is a scripted mock server of another project.
type aimock struct{ base string }

func startAimock(t *testing.T) aimock {
	t.Helper()
	llmock := program(t, "CONCLAVE_NPM", "node_modules", ".bin", "llmock")
	at := address(t)
	_, port, _ := net.SplitHostPort(at)
	run(t, "http://"+at+"/__aimock/journal", nil, llmock, "-p", port, "-f", "testdata/aimock.json", "--strict", "--validate-on-load")
	return aimock{base: "http://" + at}
}

func (a aimock) client(t *testing.T, params map[string]any) *openai.Client {
	t.Helper()
	client, err := openai.New(openai.Options{BaseURL: a.base + "/v1", APIKey: "sk-test", Model: "m1", Params: params})
	require.NoError(t, err)
	return client
}

// journal returns the bodies of the requests that aimock received.
func (a aimock) journal(t *testing.T) []string {
	t.Helper()
	res, err := http.Get(a.base + "/__aimock/journal")
	require.NoError(t, err)
	defer res.Body.Close()
	var entries []struct {
		Body json.RawMessage `json:"body"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&entries))
	var bodies []string
	for _, e := range entries {
		bodies = append(bodies, string(e.Body))
	}
	return bodies
}

func asks(text string) llm.Request {
	return llm.Request{
		Messages: []llm.Message{{Role: llm.User, Content: text}},
		Tools:    []llm.Tool{{Name: "get_weather"}, {Name: "get_time", Parameters: json.RawMessage(`{"type":"object","properties":{}}`)}},
	}
}

func TestAimock_toolCalls(t *testing.T) {
	t.Parallel()
	mock := startAimock(t)
	for name, params := range map[string]map[string]any{"streamed": nil, "not streamed": {"stream": false}} {
		t.Run(name, func(t *testing.T) {
			client := mock.client(t, params)
			req := asks("What is the weather in Paris?")
			reply, err := client.Generate(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, "Let me look.", reply.Message.Content)
			require.Equal(t, []llm.ToolCall{
				{ID: "call_w1", Name: "get_weather", Arguments: `{"city":"Paris"}`},
				{ID: "call_t1", Name: "get_time", Arguments: `{"city":"Paris"}`},
			}, reply.Message.ToolCalls)
			require.Equal(t, json.RawMessage(`"I need both."`), reply.Message.Extra["reasoning_content"])
			require.Equal(t, llm.Usage{InputTokens: 111, OutputTokens: 22, ModelCalls: 1}, reply.Usage)

			req.Messages = append(req.Messages, reply.Message,
				reply.Message.ToolCalls[0].Result("21C"), reply.Message.ToolCalls[1].Result("noon"))
			reply, err = client.Generate(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, "It is 21C in Paris.", reply.Message.Content)

			sent := mock.journal(t)
			last := sent[len(sent)-1]
			require.Contains(t, last, `"reasoning_content":"I need both."`, "sent back")
			require.Equal(t, params == nil, strings.Contains(last, `"stream":true`))
			require.Equal(t, params == nil, strings.Contains(last, `"include_usage":true`))
		})
	}
}

func TestAimock_contentIsNullBesideCalls(t *testing.T) {
	t.Parallel()
	mock := startAimock(t)
	client := mock.client(t, nil)
	req := asks("only a call")
	reply, err := client.Generate(t.Context(), req)
	require.NoError(t, err)
	require.Empty(t, reply.Message.Content)
	require.Len(t, reply.Message.ToolCalls, 1)

	req.Messages = append(req.Messages, reply.Message, reply.Message.ToolCalls[0].Result("12:00"))
	reply, err = client.Generate(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "noon", reply.Message.Content)

	var sent struct {
		Messages []map[string]any `json:"messages"`
	}
	bodies := mock.journal(t)
	require.NoError(t, json.Unmarshal([]byte(bodies[len(bodies)-1]), &sent))
	content, there := sent.Messages[1]["content"]
	require.True(t, there)
	require.Nil(t, content)
	require.Equal(t, "call_1", sent.Messages[2]["tool_call_id"])
}

func TestAimock_faults(t *testing.T) {
	t.Parallel()
	mock := startAimock(t)

	t.Run("429 with Retry-After, then 503", func(t *testing.T) {
		t.Parallel()
		start := time.Now()
		reply, err := mock.client(t, nil).Generate(t.Context(), asks("flaky"))
		require.NoError(t, err)
		require.Equal(t, "third time lucky", reply.Message.Content)
		require.GreaterOrEqual(t, time.Since(start), 3*time.Second, "2 s as asked, then at least 1.5 s")
	})
	t.Run("429 for longer than a step waits", func(t *testing.T) {
		t.Parallel()
		_, err := mock.client(t, nil).Generate(t.Context(), asks("limited for long"))
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.RateLimited, failed.Kind)
		require.Equal(t, 10*time.Minute, failed.RetryAfter)
	})
	t.Run("cut stream", func(t *testing.T) {
		t.Parallel()
		reply, err := mock.client(t, nil).Generate(t.Context(), asks("cut"))
		require.NoError(t, err)
		require.Equal(t, "whole", reply.Message.Content)
		require.Equal(t, int64(2), reply.Usage.ModelCalls, "the broken one counts")
	})
	t.Run("slow stream", func(t *testing.T) {
		t.Parallel()
		reply, err := mock.client(t, nil).Generate(t.Context(), asks("slow"))
		require.NoError(t, err)
		require.Equal(t, "slow words here", reply.Message.Content)
	})
	t.Run("cancelled stream", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := mock.client(t, nil).Generate(ctx, asks("never mind"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(start), 4*time.Second)
	})
	for name, params := range map[string]map[string]any{"length, streamed": nil, "length, not streamed": {"stream": false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply, err := mock.client(t, params).Generate(t.Context(), asks("length"))
			failed, ok := errors.AsType[*llm.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, llm.BadReply, failed.Kind)
			require.Contains(t, failed.Message, "raise max_tokens")
			require.Equal(t, llm.Usage{InputTokens: 5, OutputTokens: 1, ModelCalls: 1}, reply.Usage)
		})
	}
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		_, err := mock.client(t, nil).Generate(t.Context(), asks("too long"))
		failed, ok := errors.AsType[*llm.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, llm.ContextTooLong, failed.Kind)
		require.Equal(t, 8192, failed.Window)
	})
	t.Run("no fixture", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := mock.client(t, nil).Generate(ctx, asks("unheard of"))
		require.ErrorContains(t, err, "no fixture matched", "503 is retried, with the reason")
	})
}

func TestAimock_images(t *testing.T) {
	t.Parallel()
	mock := startAimock(t)
	dot := llm.Image{MediaType: "image/png", Data: []byte("\x89PNG")}
	client := mock.client(t, nil)

	seen := llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "what is this", Images: []llm.Image{dot}}}}
	reply, err := client.Generate(t.Context(), seen)
	require.NoError(t, err)
	require.Equal(t, "a dot", reply.Message.Content)
	require.Contains(t, mock.journal(t)[0], `"url":"data:image/png;base64,iVBORw=="`)

	unseen := llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "no images", Images: []llm.Image{dot}}}}
	_, err = client.Generate(t.Context(), unseen)
	require.Error(t, err, "the fixture refuses every try")
	sent := mock.journal(t)
	require.Len(t, sent, 3)
	require.Contains(t, sent[2], `[image of 1 KB: this model cannot see images]`)
	require.NotContains(t, sent[2], "image_url")
}
