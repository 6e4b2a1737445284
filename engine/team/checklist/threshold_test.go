package checklist

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bar by the answers left, at the default threshold.
func TestCutoff(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]int{ // by answers left, from 0
		5: {6, 6, 6, 7, 8, 8},
		3: {6, 6, 6, 8},
		2: {6, 6, 7},
		1: {6, 7},
	} {
		for left, cut := range want {
			p := Policy{Answers: limit - left, AnswerLimit: limit}.normal()
			require.Equal(t, cut, cutoff(p.effective()), "%d left of %d", left, limit)
			require.True(t, p.passes(float64(cut)))
			require.False(t, p.passes(float64(cut)-0.1))
		}
	}
	p := Policy{Answers: 9}.normal()
	require.Equal(t, 6, cutoff(p.effective()), "more answers than the limit leave none")
	require.Equal(t, 8, cutoff(Policy{Answers: 1}.normal().effective()), "without a limit it is 5")
}

// A higher threshold lowers the bar, within 0 and 10.
func TestEffective(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ threshold, limit, left, effective, cutoff int }{
		{5, 0, 0, 5, 7},
		{0, 10, 10, 0, 10},
		{1, 10, 5, 1, 9},
		{1, 10, 4, 2, 9},
		{1, 10, 7, 0, 10},
		{1, 10, 2, 3, 8},
		{9, 10, 0, 10, 5},
		{10, 10, 5, 10, 5},
		{100, 10, 9, 10, 5},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			got := effective(c.threshold, c.limit, c.left)
			require.Equal(t, c.effective, got)
			require.Equal(t, c.cutoff, cutoff(got))
		})
	}
	require.Equal(t, 4, cutoff(20), "never below 4")
}

// Every criterion must pass, whatever the threshold.
func TestRequired(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 30; n++ {
		for threshold := range 11 {
			require.Equal(t, n, required(n, threshold))
		}
	}
	require.Equal(t, 2, required(3, 60), "the relaxation needs a threshold out of reach")
}
