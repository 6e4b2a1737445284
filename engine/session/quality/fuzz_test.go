package quality

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Any arguments yield a checklist that is accepted with a verdict or refused with a code, a
// proposal that is accepted with tasks or refused with a code, and a text from which the result can
// be restored.
func FuzzCalls(f *testing.F) {
	f.Add(uint8(0), scores(good), scores(poor), goodPlan)
	f.Add(uint8(1), scores(`{"E1":  1e999}`), scores(`{"E1": {"score": null}}`), `{"improvements": {"E1": [null, [], {"plan": 1}]}}`)
	f.Add(uint8(2), scores(`{"agent2.1": {"E1": 9, "E2": 9}}`), `"{\"scores\": {}}"`, `{"improvements": {"E2": "p"}, "preserve": {"E1": null}}`)
	f.Add(uint8(3), `{"scores": "null"}`, scores(`{"E1": 9, "T1": -0, "E2": 1e-999}`), goodPlan)
	f.Add(uint8(12), scores(good), scores(`{"agent3.1": {"E1": 9, "E2": 9}}`), goodPlan)
	f.Fuzz(func(t *testing.T, kind uint8, one, two, proposal string) {
		policy := []Policy{pair(), alone(), part(), first()}[kind%4]
		policy.CallsPerRound = int(kind/4%2) + 1
		said, restored := New(policy), New(policy)
		for i, arguments := range []string{one, two, one} {
			r := said.judgeChecklist(arguments)
			checkResult(t, r)
			said.Learn(r)
			restored.Learn(decoded(t, encodeJSON(r)))
			checkPlan(t, said.judgeProposal(proposal))
			if kind/8%2 == 1 && i == 0 {
				said.Injected([]string{"agent3.1", "agent1.2"})
				restored.Injected([]string{"agent3.1", "agent1.2"})
			}
			require.Equal(t, said.Submitted(), restored.Submitted())
			require.Equal(t, said.Recheck(), restored.Recheck())
		}
		calls := []llm.ToolCall{
			{ID: "1", Name: submitChecklist, Arguments: two},
			{ID: "2", Name: proposeImprovements, Arguments: proposal},
		}
		want, _, _ := said.Evaluate(calls)
		got, _, _ := restored.Evaluate(calls)
		require.Equal(t, want, got)
	})
}

func checkResult(t *testing.T, r Result) {
	t.Helper()
	require.True(t, json.Valid([]byte(encodeJSON(r))))
	require.NotEmpty(t, r.Explanation)
	if r.Status != accepted {
		require.Equal(t, validationError, r.Status)
		require.NotEmpty(t, r.ErrorCode)
		require.Empty(t, r.Action)
		return
	}
	require.Empty(t, r.ErrorCode)
	require.Contains(t, []coordination.Action{coordination.Vote, coordination.Stop, coordination.NewAnswer}, r.Action)
	require.Len(t, r.Items, 2)
	require.Equal(t, len(r.Items), r.TrueCount+len(r.FailedCriteria))
	for _, item := range r.Items {
		require.True(t, item.Score >= 0 && item.Score <= 10)
	}
	if r.Action != coordination.NewAnswer {
		require.Empty(t, r.FailedCriteria)
	}
}

func checkPlan(t *testing.T, p *plan) {
	t.Helper()
	require.True(t, json.Valid([]byte(encodeJSON(p))))
	require.Equal(t, p.Valid, p.ErrorCode == "")
	require.Equal(t, p.Valid, p.Error == "")
	require.Equal(t, p.Valid, len(p.TaskPlan) >= 2)
}
