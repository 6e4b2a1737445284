package quality

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// The fewer answers are left, the lower is the passing score.
func TestPolicy_passing(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]int{ // by answers left, from 0
		5: {6, 6, 6, 7, 8, 8},
		3: {6, 6, 6, 8},
		2: {6, 6, 7},
		1: {6, 7},
	} {
		for left, cut := range want {
			p := Policy{Answers: limit - left, AnswerLimit: limit}.withDefaults()
			require.Equal(t, cut, p.passingScore(), "%d left of %d", left, limit)
		}
	}
	p := Policy{Answers: 9}.withDefaults()
	require.Equal(t, 6, p.passingScore(), "more answers than the limit leave none")
	require.Equal(t, 8, Policy{Answers: 1}.withDefaults().passingScore(), "without a limit it is 5")
}

// Every criterion must pass.
func TestSubmit_required(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 30; n++ {
		p := alone()
		p.Criteria = slices.Repeat(p.Criteria[:1], n)
		all := make(map[string]int)
		for i := range n {
			all[criterionID(i)] = 10
		}
		verdict := func() coordination.Action {
			r := New(p).judgeChecklist(encodeJSON(map[string]any{"scores": all}))
			require.Equal(t, n, r.Required)
			return r.Action
		}
		require.Equal(t, coordination.Vote, verdict())
		all[criterionID(n-1)] = 0
		require.Equal(t, coordination.NewAnswer, verdict())
	}
}
