package team_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	"conclave/engine/team"
)

// FuzzJudge: any reply is accepted, rejected whole, or left to the ordinary
// tools; and what is accepted is well formed.
func FuzzJudge(f *testing.F) {
	f.Add("new_answer", `{"content": "Two."}`, "read_file", `{}`, uint8(0))
	f.Add("vote", `{"agent_id": "agent1.2", "reason": "r"}`, "vote", `{"agent_id": "agent1", "reason": "r"}`, uint8(0))
	f.Add("vote", `{"agent_id": "agent9", "reason": "r"}`, "new_answer", `{`, uint8(1))
	f.Add("write_file", `{"path": "x"}`, "rm", "\xff", uint8(2))
	f.Fuzz(func(t *testing.T, name1, arguments1, name2, arguments2 string, kind uint8) {
		task := evaluation()
		switch kind % 3 {
		case 1:
			first(&task)
		case 2:
			task.Offered = []string{team.KindVote}
		}
		calls := reply(call(name1, arguments1), call(name2, arguments2)).ToolCalls
		v := team.New(task).Judge(llm.Message{Role: llm.Assistant, ToolCalls: calls})

		require.False(t, v.Action != nil && v.Rejected != "")
		for _, c := range calls {
			_, told := v.Told[c.ID]
			if v.Rejected != "" {
				require.True(t, told, "a rejected reply is refused whole")
			} else {
				require.NotEqual(t, slices.Contains(task.Tools, c.Name), told, "%q is told, or else ordinary", c.Name)
			}
		}
		if v.Action == nil {
			return
		}
		require.Contains(t, task.Offered, v.Action.Kind)
		if v.Action.Kind == team.KindVote {
			var cast team.Vote
			require.NoError(t, json.Unmarshal(v.Action.Payload, &cast))
			require.True(t, slices.ContainsFunc(task.Answers, func(a team.Answer) bool { return a.Number == cast.Number && a.Label == cast.Label }))
			return
		}
		var submitted team.NewAnswer
		require.NoError(t, json.Unmarshal(v.Action.Payload, &submitted))
		require.NotEmpty(t, submitted.Content)
	})
}
