package quality

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The criteria are numbered in order, with their hints, and the calls are in the order
// of the common flow of seed 001: submit_checklist, then propose_improvements,
// implement, submit via new_answer or the terminal action.
func TestInstructions(t *testing.T) {
	t.Parallel()
	p := pair()
	p.Criteria[1].VerifyBy = "Count the parts."
	p.Criteria[1].AntiPatterns = []string{"A promise to do it later.", "A summary."}
	require.Equal(t, strings.TrimSpace(`
# The checklist

Before you end your turn, score every answer shown by these criteria, each from 0 (not at all) to 10 (nothing left to wish for):

- E1 [primary]: Correct.
- E2 [standard]: Complete.
  To verify: Count the parts.
  To avoid: A promise to do it later.
  To avoid: A summary.

Score by your own checks, not by claims: read it all, run it, recompute it. A score that is too kind costs the team a better answer.

The order:

1. Check every answer shown.
2. Call `+"`submit_checklist`, as "+`{"scores": {"agent1.1": {"E1": 7, "E2": 5}, "agent2.1": {"E1": 7, "E2": 5}}}`+`, with all of E1 to E2. One is accepted in this turn. When it is refused with an error, correct the scores and call it again; that does not count.
3. If the verdict is `+"`vote`, call `vote`"+` and you are done.
4. If the verdict is `+"`new_answer`, call `propose_improvements`"+`: for each failed criterion your plan, at least one of them structural or transformative, and under `+"`preserve`"+` the good parts that must stay. A criterion that has plateaued needs another approach, not more of the same.
5. Do the tasks that it returns, and check each. They are your plan: `+"`get_task_plan` shows it, and `update_task`"+` records the status of a task.
6. Submit the result with `+"`new_answer`"+`.
7. If newer answers reach you after your checklist, score them with one more `+"`submit_checklist`"+`; your other scores still count.
`), p.Instructions())

	divided := part().Instructions()
	require.Contains(t, divided, "call `stop`")
	require.Contains(t, divided, `as {"scores": {"E1": 7, "E2": 5}}`)
	require.Contains(t, divided, "your own part")
	draft := first().Instructions()
	require.Contains(t, draft, "1. Work, then check your draft.")
	require.NotContains(t, draft, "`vote`")
	require.Contains(t, alone().Instructions(), "score the answer shown")
	twice := pair()
	twice.CallsPerRound = 2
	require.Contains(t, twice.Instructions(), "Up to 2 are accepted in this turn.")
	single := pair()
	single.Criteria = single.Criteria[:1]
	require.Contains(t, single.Instructions(), ", with a score for E1. ")
}

// In the first round, without an own answer, the section and the tools are missing.
func TestInstructions_closed(t *testing.T) {
	t.Parallel()
	p := first()
	p.FirstAnswer = false
	require.False(t, p.Open())
	require.Empty(t, p.Instructions())
	require.Empty(t, p.Tools())
}

// No text for the model reveals which answer is its own.
func TestInstructions_anonymous(t *testing.T) {
	t.Parallel()
	said := func(own string) string {
		p := pair()
		p.Own = own
		s := New(p)
		all := p.Instructions() + fmt.Sprint(p.Tools())
		for _, payload := range []string{`{}`, good, poor, `{"E1": 9}`, `{"agent1.1": {}}`, `{"agent2.1": {"E1": 11}}`} {
			r := s.judgeChecklist(scores(payload))
			s.Learn(r)
			all += encodeJSON(r) + encodeJSON(s.judgeProposal(goodPlan))
		}
		s.Injected([]string{"agent3.1"})
		return all + s.Recheck() + encodeJSON(s.judgeChecklist(scores(`{"agent3.1": {"E1": 9, "E2": 9}}`)))
	}
	require.Equal(t, said("agent1.1"), said("agent2.1"))
}

// A team without criteria gets five default criteria. In decomposition they concern the agent's
// part, whose description is truncated.
func TestDefaultCriteria(t *testing.T) {
	t.Parallel()
	p := Policy{Own: "agent1.1"}
	text := p.Instructions()
	require.Equal(t, 5, strings.Count(text, "[standard]"))
	require.Contains(t, text, "with all of E1 to E5")
	require.Len(t, New(p).judgeChecklist(scores(`{"E1": 9, "E2": 9, "E3": 9, "E4": 9, "E5": 9}`)).Items, 5)

	p.Decomposition, p.Subtask = true, "Write\nthe parser. "+strings.Repeat("x", 300)
	text = p.Instructions()
	require.Equal(t, 5, strings.Count(text, "[standard]"))
	require.Contains(t, text, "The part: Write the parser. xxx")
	require.NotContains(t, text, strings.Repeat("x", 140))
	p.Subtask = ""
	require.Contains(t, p.Instructions(), "The part: as assigned\n")
}

// The tools match the public contract.
func TestTools(t *testing.T) {
	t.Parallel()
	tools := pair().Tools()
	require.Len(t, tools, 2)
	for i, want := range []struct {
		name       string
		properties map[string]string
		required   []string
	}{
		{"submit_checklist", map[string]string{"scores": "object", "report_path": "string"}, []string{"scores"}},
		{"propose_improvements", map[string]string{"improvements": "object", "preserve": "object"}, []string{"improvements", "preserve"}},
	} {
		require.Equal(t, want.name, tools[i].Name)
		require.NotEmpty(t, tools[i].Description)
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		require.NoError(t, json.Unmarshal(tools[i].Parameters, &schema))
		require.Equal(t, "object", schema.Type)
		require.Equal(t, want.required, schema.Required)
		require.Len(t, schema.Properties, len(want.properties))
		for name, property := range schema.Properties {
			require.Equal(t, want.properties[name], property.Type)
			require.NotEmpty(t, property.Description)
		}
	}
}
