package checklist_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/team/checklist"
)

// FuzzCalls: no arguments break anything; every checklist is accepted with a
// verdict or refused with a code, every proposal is valid with tasks or refused
// with a code, and what was told folds as what was said.
func FuzzCalls(f *testing.F) {
	f.Add(uint8(0), scores(good), scores(poor), plan)
	f.Add(uint8(1), scores(`{"E1":  1e999}`), scores(`{"E1": {"score": null}}`), `{"improvements": {"E1": [null, [], {"plan": 1}]}}`)
	f.Add(uint8(2), scores(`{"agent2.1": {"E1": 9, "E2": 9}}`), `"{\"scores\": {}}"`, `{"improvements": {"E2": "p"}, "preserve": {"E1": null}}`)
	f.Add(uint8(3), `{"scores": "null"}`, scores(`{"E1": 9, "T1": -0, "E2": 1e-999}`), plan)
	f.Add(uint8(12), scores(good), scores(`{"agent3.1": {"E1": 9, "E2": 9}}`), plan)
	f.Fuzz(func(t *testing.T, kind uint8, one, two, proposal string) {
		policy := []checklist.Policy{pair(), alone(), part(), first()}[kind%4]
		policy.CallsPerRound = int(kind/4%2) + 1
		said, restored := checklist.New(policy), checklist.New(policy)
		for i, arguments := range []string{one, two, one} {
			r := said.Submit(arguments)
			checkResult(t, r)
			read, ok := checklist.Read(r.Told())
			require.True(t, ok)
			said.Learn(r)
			restored.Learn(read)
			checkPlan(t, said.Propose(proposal))
			if kind/8%2 == 1 && i == 0 {
				said.Injected([]string{"agent3.1", "agent1.2"})
				restored.Injected([]string{"agent3.1", "agent1.2"})
			}
			require.Equal(t, said.Submitted(), restored.Submitted())
			require.Equal(t, said.Recheck(), restored.Recheck())
		}
		calls := []llm.ToolCall{
			{ID: "1", Name: checklist.SubmitChecklist, Arguments: two},
			{ID: "2", Name: checklist.ProposeImprovements, Arguments: proposal},
		}
		require.Equal(t, said.Evaluate(calls), restored.Evaluate(calls))
	})
}

func checkResult(t *testing.T, r checklist.Result) {
	t.Helper()
	require.True(t, json.Valid([]byte(r.Told())))
	require.NotEmpty(t, r.Explanation)
	if r.Status != checklist.Accepted {
		require.Equal(t, checklist.ValidationError, r.Status)
		require.NotEmpty(t, r.ErrorCode)
		require.Empty(t, r.Verdict)
		return
	}
	require.Empty(t, r.ErrorCode)
	require.Contains(t, []string{checklist.Vote, checklist.Stop, checklist.NewAnswer}, r.Verdict)
	require.Len(t, r.Items, 2)
	require.Equal(t, len(r.Items), r.TrueCount+len(r.FailedCriteria))
	for _, item := range r.Items {
		require.True(t, item.Score >= 0 && item.Score <= 10)
	}
	if r.Verdict != checklist.NewAnswer {
		require.Empty(t, r.FailedCriteria)
	}
}

func checkPlan(t *testing.T, p checklist.Plan) {
	t.Helper()
	require.True(t, json.Valid([]byte(p.Told())))
	require.Equal(t, p.Valid, p.ErrorCode == "")
	require.Equal(t, p.Valid, p.Error == "")
	require.Equal(t, p.Valid, len(p.TaskPlan) >= 2)
}
