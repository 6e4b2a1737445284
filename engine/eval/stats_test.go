package eval_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/eval"
)

const z = 1.959963984540054

// The ends of Wilson's interval are the shares at which the score test just rejects. The test finds
// these by bisection.
func TestWilson_invertsTheScoreTest(t *testing.T) {
	t.Parallel()
	score := func(k, n, p float64) float64 { return (k/n - p) / math.Sqrt(p*(1-p)/n) }
	bisect := func(low, high float64, over func(float64) bool) float64 {
		for range 200 {
			if middle := (low + high) / 2; over(middle) {
				high = middle
			} else {
				low = middle
			}
		}
		return low
	}
	for n := 1.0; n <= 40; n += 3 {
		for k := 0.0; k <= n; k += 0.5 {
			in := eval.Wilson(k, n)
			if k > 0 {
				require.InDelta(t, bisect(1e-12, k/n, func(p float64) bool { return score(k, n, p) < z }), in[0], 1e-6, "%v of %v", k, n)
			} else {
				require.Zero(t, in[0])
			}
			if k < n {
				require.InDelta(t, bisect(k/n, 1-1e-12, func(p float64) bool { return score(k, n, p) < -z }), in[1], 1e-6, "%v of %v", k, n)
			} else {
				require.InDelta(t, 1, in[1], 1e-9)
			}
		}
	}
	require.Equal(t, eval.Interval{0, 1}, eval.Wilson(0, 0))
}

// Published values: the example of Agresti and Coull, and a share from this repository's trials.
func TestWilson_published(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		k, n      float64
		low, high float64
	}{{9, 40, .123, .375}, {19, 40, .329, .625}, {39, 40, .871, .996}, {81, 263, .2553, .3662}} {
		in := eval.Wilson(tc.k, tc.n)
		require.InDelta(t, tc.low, in[0], 6e-4)
		require.InDelta(t, tc.high, in[1], 6e-4)
	}
}

// Exact fractions give the same p-values as logarithms of factorials.
func TestMcNemar(t *testing.T) {
	t.Parallel()
	for b := range 25 {
		for c := range 25 {
			ways := new(big.Int)
			for i := 0; i <= min(b, c); i++ {
				ways.Add(ways, new(big.Int).Binomial(int64(b+c), int64(i)))
			}
			exact := new(big.Rat).SetFrac(ways.Lsh(ways, 1), new(big.Int).Lsh(big.NewInt(1), uint(b+c))) //nolint:gosec // small
			want, _ := exact.Float64()
			require.InDelta(t, min(1, want), eval.McNemar(b, c), 1e-12, "%d against %d", b, c)
		}
	}
	require.InDelta(t, 0.001, eval.McNemar(11, 0), 1e-4)
	require.InDelta(t, 0.0156, eval.McNemar(0, 7), 1e-4)
	require.InDelta(t, 1, eval.McNemar(2, 1), 1e-9)
	require.InDelta(t, 1, eval.McNemar(0, 0), 1e-9)
}

func each(b, c, same int) []float64 {
	var out []float64
	for range b {
		out = append(out, 1)
	}
	for range c {
		out = append(out, -1)
	}
	return append(out, make([]float64, same)...)
}

// The difference between two shares of the same n questions, computed from the table after adding
// half a question to each cell.
func TestDifference_fromTheTable(t *testing.T) {
	t.Parallel()
	for b := range 12 {
		for c := range 12 {
			for _, same := range []int{1, 20, 100} {
				n := float64(b + c + same)
				mean, in := eval.PairUp(each(b, c, same)).Difference()
				require.InDelta(t, float64(b-c)/n, mean, 1e-12)
				p, q := (float64(b)+.5)/(n+2), (float64(c)+.5)/(n+2)
				deviation := math.Sqrt((p + q - (p-q)*(p-q)) / (n + 2))
				require.InDelta(t, max(-1, p-q-z*deviation), in[0], 1e-12)
				require.InDelta(t, min(1, p-q+z*deviation), in[1], 1e-12)
			}
		}
	}
	_, in := eval.PairUp(nil).Difference()
	require.Equal(t, eval.Interval{-1, 1}, in)
}

// For 30 questions, the interval contains the true difference with a probability of at least 93 %.
func TestDifference_covers(t *testing.T) {
	t.Parallel()
	const n = 30
	factorial := func(k int) float64 { v, _ := math.Lgamma(float64(k) + 1); return v }
	for _, p := range []float64{.05, .2, .4} {
		for _, q := range []float64{.05, .1, .3} {
			covered := 0.0
			for b := 0; b <= n; b++ {
				for c := 0; b+c <= n; c++ {
					_, in := eval.PairUp(each(b, c, n-b-c)).Difference()
					if in[0] <= p-q && p-q <= in[1] {
						covered += math.Exp(factorial(n) - factorial(b) - factorial(c) - factorial(n-b-c) +
							float64(b)*math.Log(p) + float64(c)*math.Log(q) + float64(n-b-c)*math.Log(1-p-q))
					}
				}
			}
			require.Greater(t, covered, .93, "%v against %v", p, q)
		}
	}
}

// With the needed number of questions, four of five repetitions find the difference. The
// probability is summed from the binomial distribution of the discordant questions.
func TestNeeded_hasThePower(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ b, c, same int }{{8, 4, 18}, {20, 5, 75}, {10, 7, 43}} {
		sample := each(tc.b, tc.c, tc.same)
		needed, ok := eval.PairUp(sample).Needed()
		require.True(t, ok)
		total := float64(len(sample))
		p, q := float64(tc.b)/total, float64(tc.c)/total
		mean := float64(needed) * (p - q)
		spread := math.Sqrt(float64(needed) * (p + q - (p-q)*(p-q)))
		under := math.Sqrt(float64(needed) * (p + q)) // spread without a difference
		found := .5 * math.Erfc((z*under-mean)/spread/math.Sqrt2)
		require.InDelta(t, .8, found, .02, "%v", tc)
	}
	_, ok := eval.PairUp(each(3, 3, 10)).Needed()
	require.False(t, ok, "no difference was seen")
	_, ok = eval.PairUp(nil).Needed()
	require.False(t, ok)
}
