package quality

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"conclave/engine/config"
	"conclave/engine/coordination"
)

// bar returns the lowest passing score. It follows the table in the package comment, and does not
// use the policy's formula.
func bar(limit, left int) float64 {
	t := 5.0
	if left <= 2 {
		t += 2
	} else if 10*left <= 4*limit {
		t++
	}
	if 10*left >= 7*limit {
		t--
	}
	for score := 10.0; ; score-- { // rounded down
		if score <= 10-t/2 {
			return score
		}
	}
}

// verdict judges the scores of all answers in the order shown, in a simple but slow way.
func verdict(scores [][]float64, limit, left int, ending coordination.Action) (best int, v coordination.Action, failed []string) {
	sum := func(i int) (total float64) {
		for _, s := range scores[i] {
			total += s
		}
		return total
	}
	for i := range scores {
		beaten := false
		for j := range scores {
			if sum(j) > sum(i) || j < i && sum(j) == sum(i) {
				beaten = true
			}
		}
		if !beaten {
			best = i
		}
	}
	for k, s := range scores[best] {
		if s < bar(limit, left) {
			failed = append(failed, fmt.Sprintf("E%d", k+1))
		}
	}
	if len(failed) > 0 {
		return best, coordination.NewAnswer, failed
	}
	return best, ending, nil
}

func TestSubmit_agreesWithASlowImplementation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, answers := rapid.IntRange(1, 6).Draw(t, "criteria"), rapid.IntRange(2, 4).Draw(t, "answers")
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		given := rapid.IntRange(1, 9).Draw(t, "given")
		p := Policy{Answers: given, AnswerLimit: limit, Own: "agent1.1"}
		for range n {
			p.Criteria = append(p.Criteria, config.Criterion{Text: "It holds."})
		}
		var sheets []string
		all := make([][]float64, answers)
		for i := range all {
			label := fmt.Sprintf("agent%d.1", i+1)
			p.Labels = append(p.Labels, label)
			var entries []string
			for k := range n {
				score := float64(rapid.IntRange(0, 20).Draw(t, "score")) / 2
				all[i] = append(all[i], score)
				entries = append(entries, fmt.Sprintf(`"E%d": %g`, k+1, score))
			}
			sheets = append(sheets, fmt.Sprintf(`%q: {%s}`, label, strings.Join(entries, ", ")))
		}
		best, want, failed := verdict(all, limit, max(0, limit-given), coordination.Vote)
		r := New(p).judgeChecklist(scores("{" + strings.Join(sheets, ", ") + "}"))
		require.Equal(t, accepted, r.Status)
		require.Equal(t, want, r.Action)
		require.Equal(t, p.Labels[best], r.BestAgent)
		require.ElementsMatch(t, failed, r.FailedCriteria)
	})
}
