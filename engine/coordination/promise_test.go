package coordination

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// judgedAs returns n decisions with the support, of which some are wrong.
func judgedAs(share float64, n, wrong int) []Judged {
	var all []Judged
	for i := range n {
		all = append(all, Judged{Support: &Support{Share: share}, Right: i >= wrong})
	}
	return all
}

// The bound of Clopper and Pearson; the values come from sums of exact binomial coefficients.
func TestUpperBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n int
		want float64
	}{
		{0, 59, 0.04951}, {0, 29, 0.09814}, {1, 93, 0.04999}, {6, 240, 0.04874}, {50, 500, 0.12487}, {1000, 10000, 0.10507}, {7, 7, 1}, {0, 1, 0.95},
	} {
		require.InDelta(t, c.want, upperBound(c.k, c.n), 1e-5, "%d of %d", c.k, c.n)
	}
}

func TestLeastWith(t *testing.T) {
	t.Parallel()
	require.Equal(t, 59, LeastDecisions(0, 0.05))
	require.Equal(t, 29, LeastDecisions(0, 0.1))
	n := LeastDecisions(allowedFirst, 0.05)
	require.LessOrEqual(t, upperBound(allowedFirst, n), 0.05)
	require.Greater(t, upperBound(allowedFirst, n-1), 0.05)
}

// The score has the parts that every support has; decisions without support are in no level.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	c := Calibrate([]Judged{
		{Support: &Support{Share: 1, Agreement: new(1.0), Spread: new(1.0), Confidence: new(0.9)}, Right: true},
		{Support: &Support{Share: 2. / 3, Agreement: new(2. / 3), Spread: new(1. / 3)}},
		{Support: &Support{Share: 1, Agreement: new(1. / 3), Spread: new(-1. / 3)}, Right: true},
		{},
	})
	require.Equal(t, []string{"share", "agreement", "spread"}, c.Parts)
	require.Equal(t, 4, c.Questions)
	require.Equal(t, []Level{{1, 1, 0}, {0.55, 2, 1}, {0.44, 3, 1}}, c.Levels)
}

func TestPromise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decisions [][]Judged
		wrong     float64
		least     float64
		refused   string
	}{
		"the lowest that holds": {[][]Judged{judgedAs(1, 400, 8), judgedAs(0.8, 200, 10), judgedAs(0.6, 400, 100)}, 0.05, 0.8, ""},
		"all hold":              {[][]Judged{judgedAs(1, 400, 8), judgedAs(0.8, 600, 10)}, 0.05, 0.8, ""},
		"not beyond a failure":  {[][]Judged{judgedAs(1, 400, 8), judgedAs(0.8, 100, 40), judgedAs(0.6, 2000, 0)}, 0.05, 1, ""},
		"few with the highest":  {[][]Judged{judgedAs(1, 40, 2), judgedAs(0.8, 400, 8)}, 0.05, 0.8, ""},
		"just enough":           {[][]Judged{judgedAs(1, 59, 0)}, 0.05, 1, ""},
		"too few":               {[][]Judged{judgedAs(1, 58, 0)}, 0.05, 0, "58 questions are too few: of the 58 decisions with the most support 0 are wrong, which promises 0.05 only from about"},
		"more would do":         {[][]Judged{judgedAs(1, 100, 3)}, 0.05, 0, "more"},
		"none holds":            {[][]Judged{judgedAs(1, 500, 60), judgedAs(0.3, 500, 250)}, 0.1, 0, "no threshold holds, and more questions would not help: of the 500 decisions with the most support 12.0 % are wrong; promise more than 0.15"},
		"no decision":           {nil, 0.1, 0, "0 questions are too few"},
		"no support":            {[][]Judged{{{}, {}}}, 0.1, 0, "2 questions are too few: a promise of 0.1 needs at least 29 decisions with a support"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []Judged
			for _, some := range c.decisions {
				all = append(all, some...)
			}
			threshold, err := Calibrate(all).Promise(c.wrong)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.InDelta(t, c.least, threshold.Least, 1e-9)
		})
	}
}

// A promise is broken in at most 5 % of the drawings, for teams whose decisions with much support are
// as often wrong as it permits, and a little more often.
func TestPromise_isKept(t *testing.T) {
	t.Parallel()
	for _, questions := range []int{100, 400, 1500} {
		for _, wrong := range []float64{0.05, 0.1} {
			t.Run(fmt.Sprint(questions, wrong), func(t *testing.T) {
				t.Parallel()
				const draws = 800
				broken := 0
				for seed := range uint64(draws) {
					broken += breaks(rand.New(rand.NewPCG(seed, 7)), questions, wrong)
				}
				require.LessOrEqual(t, float64(broken), 0.05*draws+2.576*math.Sqrt(draws*0.05*0.95))
			})
		}
	}
}

// breaks draws decisions of three levels and reports whether the promise made from them is broken
// over all questions.
func breaks(chance *rand.Rand, questions int, wrong float64) int {
	shares, errs := []float64{0.2, 0.3, 0.5}, []float64{wrong * 0.9, wrong * 1.15, wrong * 1.4}
	var all []Judged
	for range questions {
		level := 0
		for x := chance.Float64() - shares[0]; x > 0; x -= shares[level] {
			level++
		}
		all = append(all, Judged{Support: &Support{Share: 1 - float64(level)/3}, Right: chance.Float64() >= errs[level]})
	}
	threshold, err := Calibrate(all).Promise(wrong)
	if err != nil {
		return 0
	}
	acted, bad := 0.0, 0.0
	for level := range shares {
		if threshold.Admits(&Support{Share: 1 - float64(level)/3}) {
			acted, bad = acted+shares[level], bad+shares[level]*errs[level]
		}
	}
	if bad > wrong*acted {
		return 1
	}
	return 0
}
