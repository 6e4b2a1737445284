package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/llm"
)

func drawUsage(t *rapid.T, name string) llm.Usage {
	count := func(field string) int64 { return rapid.Int64Range(0, 1000).Draw(t, name+" "+field) }
	u := llm.Usage{InputTokens: count("in"), CachedInputTokens: count("cached"), OutputTokens: count("out"), ReasoningTokens: count("reasoning"), ModelCalls: 1 + count("calls"), Rejections: count("rejections")}
	usd := float64(rapid.IntRange(0, 1000).Draw(t, name+" cents")) / 128 // exact in binary
	if rapid.Bool().Draw(t, name+" is priced") {
		u.TotalUSD = &usd
	} else {
		u.KnownUSD = usd
	}
	return u
}

// Since is the inverse of Add, and a sum does not depend on the order.
func TestUsage_laws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawUsage(t, "a"), drawUsage(t, "b"), drawUsage(t, "c")
		require.Equal(t, a.Add(b), b.Add(a))
		require.Equal(t, a.Add(b).Add(c), a.Add(b.Add(c)))
		rest := a.Add(b).Since(a)
		require.Equal(t, b.ModelCalls, rest.ModelCalls)
		require.Equal(t, b.InputTokens, rest.InputTokens)
		require.Equal(t, b.Rejections, rest.Rejections)
		require.InDelta(t, b.AtLeastUSD(), rest.AtLeastUSD(), 1e-9)
		require.InDelta(t, a.AtLeastUSD()+b.AtLeastUSD(), a.Add(b).AtLeastUSD(), 1e-9)
		require.Equal(t, a.TotalUSD != nil && b.TotalUSD != nil, a.Add(b).TotalUSD != nil)
	})
}

func TestUsage_Since(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	for name, tt := range map[string]struct{ total, earlier, want llm.Usage }{
		"nothing before":       {llm.Usage{ModelCalls: 2, InputTokens: 5}, llm.Usage{}, llm.Usage{ModelCalls: 2, InputTokens: 5}},
		"nothing more":         {llm.Usage{ModelCalls: 2, InputTokens: 5}, llm.Usage{ModelCalls: 2, InputTokens: 5}, llm.Usage{}},
		"less than before":     {llm.Usage{ModelCalls: 1, InputTokens: 5}, llm.Usage{ModelCalls: 2}, llm.Usage{}},
		"a priced call":        {llm.Usage{ModelCalls: 2, TotalUSD: usd(0.75)}, llm.Usage{ModelCalls: 1, TotalUSD: usd(0.5)}, llm.Usage{ModelCalls: 1, TotalUSD: usd(0.25)}},
		"a call without price": {llm.Usage{ModelCalls: 2, KnownUSD: 0.5}, llm.Usage{ModelCalls: 1, TotalUSD: usd(0.5)}, llm.Usage{ModelCalls: 1}},
		"counts never sink":    {llm.Usage{ModelCalls: 3, OutputTokens: 1}, llm.Usage{ModelCalls: 1, OutputTokens: 9}, llm.Usage{ModelCalls: 2}},
	} {
		require.Equal(t, tt.want, tt.total.Since(tt.earlier), name)
	}
}

// Rejections are added even if no call was counted.
func TestUsage_Add_rejections(t *testing.T) {
	t.Parallel()
	called := llm.Usage{ModelCalls: 1, InputTokens: 7, Rejections: 1}
	require.Equal(t, llm.Usage{ModelCalls: 1, InputTokens: 7, Rejections: 3}, called.Add(llm.Usage{Rejections: 2}))
	require.Equal(t, llm.Usage{ModelCalls: 1, InputTokens: 7, Rejections: 3}, llm.Usage{Rejections: 2}.Add(called))
}

func TestNewTool(t *testing.T) {
	t.Parallel()
	tool := llm.NewTool("vote", "Vote.", map[string]llm.Property{"agent_id": {Type: "string", Description: "A label.", Enum: []string{"agent1"}}}, "agent_id")
	require.JSONEq(t, `{"type":"object","properties":{"agent_id":{"type":"string","description":"A label.","enum":["agent1"]}},"required":["agent_id"],"additionalProperties":false}`, string(tool.Parameters))
	none := llm.NewTool("submit", "Submit.", map[string]llm.Property{})
	require.JSONEq(t, `{"type":"object","properties":{},"required":[],"additionalProperties":false}`, string(none.Parameters), "servers refuse null")
}

// A message keeps the fields of its provider, and an empty message is encoded without empty lists.
func TestMessage_JSON(t *testing.T) {
	t.Parallel()
	call := llm.ToolCall{ID: "c1", Name: "vote", Arguments: "{}", Extra: map[string]json.RawMessage{"extra_content": json.RawMessage(`{"signature":"x"}`)}}
	m := llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{call}, Extra: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"hm"`)}}
	data, err := json.Marshal(m)
	require.NoError(t, err)
	var back llm.Message
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, m, back)
	data, err = json.Marshal(llm.Message{Role: llm.User, Content: "hello"})
	require.NoError(t, err)
	require.JSONEq(t, `{"role":"user","content":"hello"}`, string(data))
	require.Equal(t, llm.Message{Role: llm.ToolRole, ToolCallID: "c1", Content: "done"}, call.Result("done"))
}

func TestError_Outage(t *testing.T) {
	t.Parallel()
	for kind, want := range map[llm.Kind]bool{
		llm.Overloaded: true, llm.Network: true, llm.RateLimited: false, llm.BadReply: false, llm.AuthFailed: false, llm.BadRequest: false, llm.ContextTooLong: false, llm.ContentPolicy: false,
	} {
		require.Equal(t, want, (&llm.Error{Kind: kind}).Outage(), kind)
	}
}
