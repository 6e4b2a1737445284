package loop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

func usage(in, out, reasoning int64) llm.Usage {
	return llm.Usage{InputTokens: in, OutputTokens: out, ReasoningTokens: reasoning, ModelCalls: 1}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	c := begun().turns(1, 8000).Messages
	weight := weightOf(c...)
	replied := append(c[:len(c):len(c)], llm.Message{Role: llm.Assistant, Content: "Two."})
	thought := append(c[:len(c):len(c)], llm.Message{Role: llm.Assistant, Content: "Two.", Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"Well."`)}})
	for name, tt := range map[string]struct {
		usage    llm.Usage
		messages []llm.Message
		tokens   int
	}{
		"request and reply":           {usage(2500, 10, 0), replied, 2510},
		"thoughts are not sent back":  {usage(2500, 500, 490), replied, 2510},
		"unless they are kept":        {usage(2500, 500, 490), thought, 3000},
		"nothing reported":            {llm.Usage{ModelCalls: 1}, replied, 0},
		"the sum of several calls":    {llm.Usage{InputTokens: 5000, ModelCalls: 2}, replied, 0},
		"too little to be true":       {usage(10, 10, 0), replied, 0},
		"too much to be counted with": {usage(1<<62, 1<<62, 0), replied, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := History{Messages: tt.messages}
			h.Measure(tt.usage)
			require.Equal(t, tt.tokens, h.gauge.tokens)
			if tt.tokens > 0 {
				require.Greater(t, h.gauge.weight, weight)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	text := func(n int) []llm.Message { return []llm.Message{{Role: llm.User, Content: strings.Repeat("x", n-16)}} }
	tools := []llm.Tool{{Name: strings.Repeat("x", 400-16)}}
	for name, tt := range map[string]struct {
		gauge  gauge
		weight int
		tools  []llm.Tool
		want   int
	}{
		"a third of the bytes while nothing is measured": {gauge{}, 9000, nil, 3000},
		"tools count":                                      {gauge{}, 9000, tools, 3133},
		"as measured":                                      {gauge{tokens: 2000, weight: 9000}, 9000, nil, 2000},
		"the tools were measured, too":                     {gauge{tokens: 2000, weight: 9000}, 9000, tools, 2000},
		"new text has a quarter more than usual":           {gauge{tokens: 2000, weight: 9000}, 9000 + 1600, nil, 2500},
		"or as much as the rest, if that is dense":         {gauge{tokens: 9000, weight: 9000}, 10000, nil, 10000},
		"removed text is as dense as the rest":             {gauge{tokens: 2000, weight: 9000}, 4500, nil, 1000},
		"what is gone takes no tools with it":              {gauge{tokens: 2100, weight: 8000}, 4000, tools, 1100},
		"a measurement that tools alone would have passed": {gauge{tokens: 100, weight: 800}, 800, tools, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := History{Messages: text(tt.weight), gauge: tt.gauge}
			require.Equal(t, tt.want, h.Tokens(tt.tools))
		})
	}
}

func TestWeigh_images(t *testing.T) {
	t.Parallel()
	small := weightOf(llm.Message{Images: []llm.Image{{Data: []byte("x")}}})
	require.Equal(t, small, weightOf(llm.Message{Images: []llm.Image{{Data: make([]byte, 1<<20)}}}))
	require.Greater(t, small, 4000)
}

// A longer text never has fewer tokens, whatever was measured.
func TestTokens_monotonic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := gauge{tokens: rapid.IntRange(0, 1<<30).Draw(rt, "tokens"), weight: rapid.IntRange(0, 1<<22).Draw(rt, "weight")}
		h := History{gauge: g}
		before := h.Tokens(nil)
		require.GreaterOrEqual(rt, before, 0)
		for range 5 {
			h.Messages = append(h.Messages, llm.Message{Content: strings.Repeat("x", rapid.IntRange(0, 1<<16).Draw(rt, "more"))})
			after := h.Tokens(nil)
			require.GreaterOrEqual(rt, after, before)
			before = after
		}
	})
}
