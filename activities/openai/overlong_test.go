package openai_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/openai"
	"conclave/engine/llm"
)

const most = 64 << 10 // bytes of a reply in these tests

var brief = llm.Request{Messages: hello.Messages, MaxReply: most}

func requireOverlong(t *testing.T, err error) {
	t.Helper()
	failed, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, llm.BadReply, failed.Kind)
	require.True(t, failed.Overlong)
	require.Equal(t, "model m1 at models.test: the reply is longer than 64.0 KB", failed.Message)
}

// A stream that never ends is not read on after the limit, whatever it has too much of, and its
// beginning is returned.
func TestStream_overlong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for name, fields := range map[string]string{
		"content":              `"content":"` + long + `"`,
		"content in parts":     `"content":[{"type":"text","text":"` + strings.Repeat(long, 5) + `"}]`,
		"reasoning":            `"reasoning_content":"` + long + `"`,
		"structured reasoning": `"reasoning_details":[{"type":"reasoning.text","text":"` + strings.Repeat(long, 5) + `"}]`,
		"arguments":            `"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"` + long + `"}}]`,
		"many calls":           `"tool_calls":[{"id":"a","function":{"name":"add","arguments":"{\"a\":\"` + long + `\"}"}}]`,
		"a signature":          `"tool_calls":[{"index":0,"id":"a","function":{"name":"add"},"extra_content":{"google":"` + strings.Repeat(long, 700) + `"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			client, wire := serve(t, openai.Options{}, func(res http.ResponseWriter, req *http.Request) {
				res.Header().Set("Content-Type", "text/event-stream")
				for req.Context().Err() == nil && sent.Load() < 8<<20 {
					n, err := io.WriteString(res, "data: "+delta(fields)+"\n\n")
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			})
			reply, err := client.Generate(t.Context(), brief)
			requireOverlong(t, err)
			require.Equal(t, int64(1), reply.Usage.ModelCalls, "it is paid for")
			require.Less(t, sent.Load(), int64(8<<20), "the rest is not read")
			require.Len(t, wire.seen(), 1, "the client does not ask again by itself")
			if name == "content" {
				require.Less(t, len(reply.Message.Content), most+len(long)+1)
				require.Equal(t, "xxx", reply.Message.Content[:3])
			}
		})
	}
}

// A whole completion is measured, too. One that exceeds the limit of a response is also too long.
func TestReply_overlong(t *testing.T) {
	t.Parallel()
	flood := strings.Repeat("x", most)
	for name, message := range map[string]string{
		"content":   fmt.Sprintf(`{"content":%q}`, flood),
		"reasoning": fmt.Sprintf(`{"content":"hi","reasoning":%q}`, flood),
		"arguments": fmt.Sprintf(`{"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":%q}}]}`, flood),
	} {
		client, _ := serve(t, openai.Options{}, rawFields(200, choice(`"stop"`, message)))
		_, err := client.Generate(t.Context(), brief)
		requireOverlong(t, err)
		_, err = client.Generate(t.Context(), hello)
		require.NoError(t, err, "%s: no limit was asked for", name)
	}
	client, _ := serve(t, openai.Options{}, rawFields(200, choice(`"stop"`, fmt.Sprintf(`{"content":%q}`, strings.Repeat("x", 33<<20)))))
	_, err := client.Generate(t.Context(), brief)
	failed, ok := errors.AsType[*llm.Error](err)
	require.True(t, ok, "%v", err)
	require.True(t, failed.Overlong, failed.Message)
}

// The frames of tokens do not count: a long thought in many small parts, and a long file in many
// fragments, are within the limit.
func TestStream_frames(t *testing.T) {
	t.Parallel()
	var chunks []string
	for range 4000 {
		chunks = append(chunks, delta(`"content":null,"reasoning_details":[{"type":"reasoning.text","text":"so, ","index":0,"format":"anthropic-claude-v1","id":null,"signature":null}]`),
			calls(`{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":"word "}}`))
	}
	client, _ := serve(t, openai.Options{}, rawFields(200, readEvents(append(chunks, end("tool_calls"))...), "Content-Type", "text/event-stream"))
	reply, err := client.Generate(t.Context(), brief)
	require.NoError(t, err)
	require.Len(t, reply.Message.ToolCalls[0].Arguments, 4000*len("word "))
}
