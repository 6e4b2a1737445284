package session

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Any reply in any kind of step is accepted, rejected as a whole, or passed to the ordinary tools.
// Accepted actions are valid, and notes can be learned.
func FuzzJudge(f *testing.F) {
	f.Add("new_answer", `{"content": "Two."}`, "read_file", `{}`, uint8(0))
	f.Add("vote", `{"agent_id": "agent1.2", "reason": "r"}`, "vote", `{"agent_id": "agent1", "reason": "r"}`, uint8(0))
	f.Add("vote", `{"agent_id": "agent9", "reason": "r"}`, "new_answer", `{`, uint8(1))
	f.Add("write_file", `{"path": "x"}`, "rm", "\xff", uint8(2))
	f.Add("stop", `{"summary": "s", "status": "blocked"}`, "write_file", `{}`, uint8(3))
	f.Add("restart_orchestration", `{"reason": "r", "instructions": "i"}`, "submit", `{}`, uint8(4))
	f.Add("submit_checklist", `{"scores": {"agent1.2": {"E1": 1, "E2": 2}, "agent3.1": {"E1": 3, "E2": 4}}}`, "propose_improvements", `{}`, uint8(5))
	f.Add("new_answer", `{"content": "Two."}`, "write_file", `{}`, uint8(6))
	f.Fuzz(func(t *testing.T, name1, arguments1, name2, arguments2 string, kind uint8) {
		task, over := fuzzedTask(kind)
		rules := newRules(task)
		if over {
			require.NoError(t, rules.Learn(t.Context(), loop.Entry{Kind: loop.Updated, Seconds: 1, Note: json.RawMessage(`{"wrap_up": true}`)}))
		}
		calls := reply(call(name1, arguments1), call(name2, arguments2)).ToolCalls
		v := rules.Judge(llm.Message{Role: llm.Assistant, ToolCalls: calls})

		require.False(t, v.Action != nil && v.Rejected != "")
		require.Equal(t, v.Action != nil, v.Withdrawn != "")
		for _, c := range calls {
			_, told := v.Results[c.ID]
			if v.Rejected != "" || over {
				require.True(t, told, "a rejected reply is refused whole, and a late one is denied")
			} else {
				require.NotEqual(t, slices.Contains(task.Tools, c.Name), told, "%q has a result, or is ordinary", c.Name)
			}
		}
		require.NoError(t, rules.Learn(t.Context(), loop.Entry{Kind: loop.Results, Note: v.Note}))
		if v.Action != nil {
			requireWellFormed(t, task, *v.Action)
		}
	})
}

// fuzzedTask returns a step of one kind. over is true if its time is over.
func fuzzedTask(kind uint8) (task task, over bool) {
	task = evaluation()
	task.Novelty = "strict"
	switch kind % 7 {
	case 1:
		first(&task)
	case 2:
		task.Offered = []coordination.Action{coordination.Vote}
	case 3:
		divided(&task)
	case 4:
		evaluating(&task)
	case 5:
		gated(&task)
	case 6:
		task.Soft = 1
		over = true
	}
	return task, over
}

func requireWellFormed(t *testing.T, task task, a loop.Action) {
	t.Helper()
	require.Contains(t, task.Offered, coordination.Action(a.Kind))
	switch coordination.Action(a.Kind) {
	case coordination.Vote:
		var cast ballot
		require.NoError(t, json.Unmarshal(a.Payload, &cast))
		require.True(t, slices.ContainsFunc(task.Answers, func(a answer) bool { return a.Number == cast.Number && a.Label == cast.Label }))
	case coordination.NewAnswer:
		var submitted proposal
		require.NoError(t, json.Unmarshal(a.Payload, &submitted))
		require.NotEmpty(t, submitted.Content)
	case coordination.Stop:
		var stopped stop
		require.NoError(t, json.Unmarshal(a.Payload, &stopped))
		require.NotEmpty(t, stopped.Summary)
		require.Contains(t, []coordination.StopStatus{coordination.Complete, coordination.Blocked}, stopped.Status)
	case coordination.RestartTeam:
		var again restart
		require.NoError(t, json.Unmarshal(a.Payload, &again))
		require.NotEmpty(t, again.Reason)
		require.NotEmpty(t, again.Instructions)
	default:
		require.Equal(t, "submit", a.Kind)
		require.JSONEq(t, `{}`, string(a.Payload))
	}
}
