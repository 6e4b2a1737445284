package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/llm"
)

func TestLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a b c", cli.Line(" a\n\n b\t\x1b[1mc\u202e "))
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	usd := func(v float64) *float64 { return &v }
	require.Equal(t, "no tokens yet", cli.Cost(llm.Usage{}))
	require.Equal(t, "30 tokens, cost unknown", cli.Cost(llm.Usage{InputTokens: 10, OutputTokens: 20, ModelCalls: 1}))
	require.Equal(t, "30 tokens, at least $0.2500", cli.Cost(llm.Usage{InputTokens: 10, OutputTokens: 20, KnownUSD: 0.25, ModelCalls: 2}))
	require.Equal(t, "1.5k tokens, $0.0123", cli.Cost(llm.Usage{InputTokens: 1500, TotalUSD: usd(0.01234), ModelCalls: 1}))
	require.Equal(t, "0 tokens, no cost", cli.Cost(llm.Usage{TotalUSD: usd(0), ModelCalls: 1}))
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 99_999: "100.0k", 100_000: "100k", 2_500_000: "2.5M"} {
		require.Equal(t, want, cli.Count(n))
	}
	for d, want := range map[time.Duration]string{-time.Second: "0:00", 61 * time.Second: "1:01", 3661 * time.Second: "1:01:01"} {
		require.Equal(t, want, cli.Clock(d))
	}
	require.Equal(t, "1 vote, 2 votes", cli.Plural(1, "vote")+", "+cli.Plural(2, "vote"))
}
