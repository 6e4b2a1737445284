package quality

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
)

func call(id, name, arguments string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Arguments: arguments}
}

func TestNew_endsWithTheMemo(t *testing.T) {
	t.Parallel()
	tasks := NewPlan([]PlanTask{{ID: "t1", Description: "Fix it."}}, []string{"the title"}, true)
	require.Len(t, tasks, 3)
	require.Equal(t, "verify_preserve", tasks[1].ID)
	last := tasks[2]
	require.Equal(t, "write_verification_memo", last.ID)
	require.Contains(t, last.Description, "memory/short_term/verification_latest.md")
	for _, section := range []string{"Verification Contract", "Inputs and Artifacts", "Replay Steps", "Latest Verification Result", "Stale If"} {
		require.Contains(t, last.Description, section)
	}
	for _, task := range tasks {
		require.Equal(t, "pending", task.Status)
	}
	without := NewPlan([]PlanTask{{ID: "t1"}}, nil, false)
	require.Len(t, without, 2)
	require.Contains(t, without[1].Description, "End your answer with a verification memo")
	require.Contains(t, without[1].Description, "Stale If")
}

func TestState_updates(t *testing.T) {
	t.Parallel()
	s := BeginPlan([]PlanTask{{ID: "t1", Status: pending}, {ID: "t2", Status: pending}})
	texts, updates := s.Evaluate([]llm.ToolCall{
		call("1", "update_task", `{"task_id":"t1","status":"completed","note":"done"}`),
		call("2", "get_task_plan", `{}`),
		call("3", "read_file", `{}`),
	})
	require.JSONEq(t, `{"status":"ok","remaining":1}`, texts["1"])
	require.JSONEq(t, `{"tasks":[{"id":"t1","description":"","status":"completed","note":"done"},{"id":"t2","description":"","status":"pending"}]}`, texts["2"],
		"a later call sees an earlier one")
	require.NotContains(t, texts, "3")
	require.Equal(t, []PlanUpdate{{ID: "t1", Status: "completed", Note: "done"}}, updates)

	texts, _ = s.Evaluate([]llm.ToolCall{call("1", "get_task_plan", ``)})
	require.NotContains(t, texts["1"], "completed", "nothing counts before it is learned")
	s.Learn(updates[0])
	s.Learn(PlanUpdate{ID: "t1", Status: "blocked"})
	texts, _ = s.Evaluate([]llm.ToolCall{call("1", "get_task_plan", ``)})
	require.Contains(t, texts["1"], `"status":"blocked","note":"done"`, "the note stays")
}

func TestState_refusesAnUpdate(t *testing.T) {
	t.Parallel()
	for arguments, code := range map[string]string{
		`[]`:                                  "arguments_invalid",
		`nonsense`:                            "arguments_invalid",
		`{"task_id":"t9","status":"pending"}`: "task_unknown",
		`{"status":"pending"}`:                "task_unknown",
		`{"task_id":"t1","status":"done"}`:    "status_invalid",
		`{"task_id":"t1"}`:                    "status_invalid",
	} {
		texts, updates := BeginPlan([]PlanTask{{ID: "t1", Status: pending}}).Evaluate([]llm.ToolCall{call("1", "update_task", arguments)})
		require.Empty(t, updates, arguments)
		var r result
		require.NoError(t, json.Unmarshal([]byte(texts["1"]), &r))
		require.Equal(t, code, r.ErrorCode, arguments)
		require.NotEmpty(t, r.Error)
		require.Equal(t, 1, r.Remaining)
	}
}

func TestState_boundsNotes(t *testing.T) {
	t.Parallel()
	_, updates := BeginPlan(NewPlan([]PlanTask{{ID: "t1"}}, nil, false)).Evaluate([]llm.ToolCall{
		call("1", "update_task", `{"task_id":"t1","status":"blocked","note":"`+strings.Repeat("x", 5000)+`"}`),
	})
	require.LessOrEqual(t, len(updates[0].Note), maxNote)
}

// Before a proposal there is no plan, and the tools report this.
func TestState_withoutAPlan(t *testing.T) {
	t.Parallel()
	texts, updates := BeginPlan(nil).Evaluate([]llm.ToolCall{call("1", "get_task_plan", ``), call("2", "update_task", `{"task_id":"t1","status":"completed"}`)})
	require.Empty(t, updates)
	require.JSONEq(t, `{"tasks":[]}`, texts["1"])
	require.Contains(t, texts["2"], "You have no plan yet")
}

func TestPlanTools(t *testing.T) {
	t.Parallel()
	for _, tool := range PlanTools() {
		require.True(t, OffersPlanTool(tool.Name))
		require.True(t, json.Valid(tool.Parameters))
	}
	require.False(t, OffersPlanTool("submit_checklist"))
}
