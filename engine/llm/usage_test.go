package llm_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	priced := llm.Usage{InputTokens: 10, CachedInputTokens: 4, OutputTokens: 2, ReasoningTokens: 1, TotalUSD: usd(0.5), ModelCalls: 1}
	unpriced := llm.Usage{InputTokens: 1, OutputTokens: 1, ModelCalls: 1}

	require.Equal(t, priced, llm.Usage{}.Add(priced), "nothing plus a call is that call")
	require.Equal(t, priced, priced.Add(llm.Usage{}), "a call plus nothing is that call")
	require.Equal(t,
		llm.Usage{InputTokens: 20, CachedInputTokens: 8, OutputTokens: 4, ReasoningTokens: 2, TotalUSD: usd(1), ModelCalls: 2},
		priced.Add(priced))
	require.Nil(t, priced.Add(unpriced).TotalUSD, "one unknown price makes the total unknown")
	require.Nil(t, unpriced.Add(priced).TotalUSD)
}

// A count that is too large stays large: it must not turn negative and lift a limit.
func TestUsageAddSaturates(t *testing.T) {
	t.Parallel()
	usd := math.MaxFloat64
	most := llm.Usage{
		InputTokens: math.MaxInt64, CachedInputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, ReasoningTokens: math.MaxInt64,
		TotalUSD: &usd, ModelCalls: math.MaxInt64,
	}
	require.Equal(t, most, most.Add(most))

	least := llm.Usage{InputTokens: math.MinInt64, ModelCalls: 1}
	require.Equal(t, int64(math.MinInt64), least.Add(least).InputTokens)
	require.Equal(t, int64(-1), least.Add(most).InputTokens)
}
