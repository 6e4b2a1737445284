package chat

import (
	"bufio"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/gateway"
	"conclave/engine/llm"
	"conclave/engine/llm/wire"
)

func begun(apart bool) (*completionStream, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	return completions{}.begin(w, wish{model: "conclave", usageApart: apart}, "s1").(*completionStream), w
}

// chunksOf returns the events of a stream, decoded, and whether it was closed.
func chunksOf(t *testing.T, body string) (chunks []wire.ChatChunk, done bool) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		default:
			var c wire.ChatChunk
			require.NoError(t, json.Unmarshal([]byte(data), &c))
			chunks = append(chunks, c)
		}
	}
	return chunks, done
}

func TestStream_reply(t *testing.T) {
	t.Parallel()
	usd := 0.25
	answer := strings.Repeat("é", 1<<10) + "end"
	r := gateway.Reply{Answer: answer, Usage: llm.Usage{InputTokens: 30, CachedInputTokens: 10, OutputTokens: 5, ReasoningTokens: 2, ModelCalls: 3, TotalUSD: &usd}}
	for _, apart := range []bool{false, true} {
		s, w := begun(apart)
		s.tell("agent_a answered agent1.1")
		s.finish(newReply(wish{}, r))
		chunks, done := chunksOf(t, w.Body.String())
		require.True(t, done)
		text, finished := "", 0
		for _, c := range chunks {
			require.Equal(t, "conclave-s1", c.ID)
			require.Equal(t, "chat.completion.chunk", c.Object)
			for _, choice := range c.Choices {
				text += choice.Delta.Content
				if choice.FinishReason != nil {
					require.Equal(t, "stop", *choice.FinishReason)
					finished++
				}
			}
		}
		require.Equal(t, answer, text)
		require.Equal(t, 1, finished)
		require.Equal(t, "assistant", chunks[0].Choices[0].Delta.Role)
		require.Equal(t, "agent_a answered agent1.1\n", chunks[1].Choices[0].Delta.Reasoning)
		last := chunks[len(chunks)-1]
		require.Equal(t, int64(35), last.Usage.TotalTokens)
		require.Equal(t, int64(10), last.Usage.PromptDetails.CachedTokens)
		require.InEpsilon(t, usd, *last.Usage.Cost, 1e-9)
		require.Equal(t, apart, len(last.Choices) == 0)
		require.Nil(t, chunks[len(chunks)-2].Usage)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "short", strings.Repeat("日本", 10), strings.Repeat("\x80", 20)} {
		joined := ""
		for rest := text; rest != ""; {
			var head string
			head, rest = cutText(rest, 4)
			require.NotEmpty(t, head)
			require.LessOrEqual(t, len(head), 4)
			joined += head
		}
		require.Equal(t, text, joined)
	}
}

// A silent stream gets a comment at least every ten seconds; a lively one does not.
func TestStream_keepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := begun(false)
		stop := s.keepAlive(keepAlive)
		time.Sleep(time.Minute)
		stop()
		comments := strings.Count(w.Body.String(), ": the session goes on\n\n")
		require.GreaterOrEqual(t, comments, 6)
		require.LessOrEqual(t, comments, 11)
		require.NoError(t, s.err)

		s, w = begun(false)
		stop = s.keepAlive(keepAlive)
		for range 10 {
			s.tell("x")
			time.Sleep(time.Second)
		}
		stop()
		require.NotContains(t, w.Body.String(), ": the session")
	})
}
