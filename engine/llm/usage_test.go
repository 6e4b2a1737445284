package llm_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func TestUsage_Add(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	priced := llm.Usage{InputTokens: 10, CachedInputTokens: 4, OutputTokens: 2, ReasoningTokens: 1, TotalUSD: usd(0.5), ModelCalls: 1, Rejections: 1}
	unpriced := llm.Usage{InputTokens: 1, OutputTokens: 1, ModelCalls: 1}

	require.Equal(t, priced, llm.Usage{}.Add(priced), "nothing plus a call is that call")
	require.Equal(t, priced, priced.Add(llm.Usage{}), "a call plus nothing is that call")
	require.Equal(t,
		llm.Usage{InputTokens: 20, CachedInputTokens: 8, OutputTokens: 4, ReasoningTokens: 2, TotalUSD: usd(1), ModelCalls: 2, Rejections: 2},
		priced.Add(priced))
	require.Equal(t, priced, priced.Add(priced).Since(priced))
	require.Nil(t, priced.Add(unpriced).TotalUSD, "one unknown price makes the total unknown")
	require.Nil(t, unpriced.Add(priced).TotalUSD)
}

// Known costs are counted even if others are unknown.
func TestUsage_AtLeastUSD(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	priced := llm.Usage{InputTokens: 10, TotalUSD: usd(0.5), ModelCalls: 1}
	unpriced := llm.Usage{ModelCalls: 1}

	mixed := priced.Add(unpriced).Add(priced).Add(unpriced.Add(priced))
	require.Nil(t, mixed.TotalUSD)
	require.InDelta(t, 1.5, mixed.AtLeastUSD(), 1e-12)
	text, err := json.Marshal(mixed)
	require.NoError(t, err)
	require.Contains(t, string(text), `"total_usd":null,"known_usd":1.5,`)

	require.InDelta(t, 0.5, priced.AtLeastUSD(), 0)
	text, err = json.Marshal(priced.Add(priced))
	require.NoError(t, err)
	require.NotContains(t, string(text), "known_usd", "the contract's object, where everything is known")
	require.Zero(t, unpriced.Add(unpriced).AtLeastUSD())

	most := llm.Usage{KnownUSD: math.MaxFloat64, ModelCalls: 1}
	require.InDelta(t, math.MaxFloat64, most.Add(most).KnownUSD, 0, "JSON has no infinity")
}

// Overflowing counts saturate, because a negative count would disable a limit.
func TestUsage_Add_saturates(t *testing.T) {
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

// Lost requests add up with and without calls.
func TestUsage_repeated(t *testing.T) {
	t.Parallel()
	lost, called := llm.Usage{Repeated: 2}, llm.Usage{ModelCalls: 1, Repeated: 1}
	for _, sum := range []llm.Usage{lost.Add(called), called.Add(lost)} {
		require.EqualValues(t, 3, sum.Repeated)
		require.EqualValues(t, 1, sum.ModelCalls)
	}
	require.EqualValues(t, 2, called.Add(called).Repeated)
	require.EqualValues(t, 1, llm.Usage{ModelCalls: 2, Repeated: 2}.Since(called).Repeated)
	require.EqualValues(t, 1, llm.Usage{ModelCalls: 1, Repeated: 2}.Since(called).Repeated)
}

// Amounts that differ by more than a hundredth are printed differently.
func TestFormatUSD(t *testing.T) {
	t.Parallel()
	for want, amount := range map[string]float64{
		"$0.00": 0, "$5.00": 5, "$0.25": 0.25, "$0.125": 0.125, "$0.001": 0.001, "$0.0062": 0.0062, "$0.000031": 0.000031,
		"$33.33": 100.0 / 3, "$0.000000000000": 1e-15, "$-0.004": -0.004,
	} {
		require.Equal(t, want, llm.FormatUSD(amount, 2))
	}
	require.Equal(t, "$0.5000", llm.FormatUSD(0.5, 4))
}
