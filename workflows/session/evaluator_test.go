package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/workflows/stagetest"
)

// evaluation is a reply of the evaluator. tasks is the JSON of next_tasks.
func evaluation(verdict string, score float64, tasks string) llm.Message {
	packet := map[string]string{}
	for _, part := range []string{
		"criteria_interpretation", "criterion_findings", "cross_answer_synthesis", "preserve", "improvement_spec", "verification_plan", "evidence_gaps",
	} {
		packet[part] = "The " + part + " of a careful evaluator."
	}
	scores := map[string]float64{}
	for i := range 5 {
		scores[fmt.Sprintf("E%d", i+1)] = score
	}
	data, _ := json.Marshal(map[string]any{
		"packet": packet, "verdict": map[string]any{"verdict": verdict, "scores": scores}, "next_tasks": json.RawMessage(tasks),
	})
	return llm.Message{Role: llm.Assistant, ToolCalls: []llm.ToolCall{{ID: "e", Name: "submit_evaluation", Arguments: string(data)}}}
}

// tasksAt are valid tasks with a ceiling.
func tasksAt(ceiling string) string {
	return `{"objective": "Name the moons.",
		"approach_assessment": {"ceiling_status": "` + ceiling + `",
			"paradigm_shift": {"current_limitation": "A bare number.", "alternative_approach": "A table.", "transferable_elements": ["the number"]}},
		"tasks": [{"id": "names", "description": "Add the names", "implementation_guidance": "Phobos and Deimos.", "verification": "Look them up."}],
		"evolution_tasks": [{"id": "table", "description": "Make a table", "implementation_guidance": "Two rows.", "verification": "Count them."}],
		"preserve": ["the number"]}`
}

func evaluated(t *config.Team) {
	t.Orchestrator.VotingSensitivity = "checklist_gated"
	t.Orchestrator.Coordination.RoundEvaluatorBeforeChecklist = true
	t.Orchestrator.Coordination.OrchestratorManagedRoundEvaluator = true
}

func names(tools []llm.Tool) string {
	var all []string
	for _, tool := range tools {
		all = append(all, tool.Name)
	}
	return strings.Join(all, " ")
}

// lastResult returns the last tool result of a request.
func lastResult(r llm.Request) string {
	result := ""
	for _, m := range r.Messages {
		if m.Role == llm.ToolRole {
			result = m.Content
		}
	}
	return result
}

// Seed 001, the round evaluator's normal path: valid tasks are the plan of the next step,
// which has no checklist and hands in by new_answer; a converged answer goes to the checklist
// with the packet as its report.
func TestEvaluator_tasksBecomeThePlan(t *testing.T) {
	t.Parallel()
	const id = "default-test-workflow-id"
	scores := `{"scores": {"E1": 9, "E2": 9, "E3": 9, "E4": 9, "E5": 9}`
	checklist := func(report string) llm.Message {
		return llm.Message{ToolCalls: []llm.ToolCall{{ID: "c", Name: "submit_checklist", Arguments: scores + report + "}"}}}
	}
	s := stagetest.New(t, map[string][]any{
		"agent_a": {
			stagetest.Answer("Two."),
			stagetest.Call("get_task_plan", map[string]string{}),
			stagetest.Call("read_file", map[string]string{"path": "evaluator/critique_packet.md"}),
			stagetest.Call("update_task", map[string]string{"task_id": "names", "status": "completed"}),
			stagetest.Call("write_file", map[string]string{"path": "memory/short_term/verification_latest.md", "content": "# Replay Steps\n\nCount the lines of moons.md."}),
			stagetest.Call("write_file", map[string]string{"path": "moons.md", "content": "Phobos\nDeimos\n"}),
			stagetest.Answer("Two: Phobos and Deimos."),
			checklist(""), checklist(`, "report_path": "evaluator/critique_packet.md"`), stagetest.Vote("agent1"),
		},
		"agent_b": {}, // the evaluator's script
	}, func(c *config.Team) {
		evaluated(c)
		c.Agents = c.Agents[:1]
		c.Agents[0].SystemMessage = "Be brief."
		c.Orchestrator.Coordination.RoundEvaluator.Backend = &config.Backend{Type: "openai", Model: "judge"}
	})
	judge := s.Cast["agent_b"]
	s.Cast[config.Evaluator] = judge
	judge.Replies = []any{
		stagetest.Call("read_file", map[string]string{"path": "peers/agent1.md"}),
		evaluation("iterate", 4, tasksAt("ceiling_not_reached")), evaluation("converged", 9, "null"),
	}
	a, e := s.Cast["agent_a"].Prompts(), judge.Prompts()
	result := decide(t, s)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent1.2", result.WinnerLabel)
	require.EqualValues(t, 13, result.Cost.ModelCalls, "the evaluator's calls count")

	require.Contains(t, e(1).Messages[0].Content, "you evaluate its answer")
	require.NotContains(t, stagetest.User(e(1)), "Be brief.", "the agent's own instructions are not the evaluator's")
	require.Contains(t, stagetest.User(e(1)), "- E1 [standard]: It does all")
	require.Contains(t, stagetest.User(e(1)), "Evaluate agent1.1")
	require.Regexp(t, `\bsubmit_evaluation$`, names(e(1).Tools))
	require.NotRegexp(t, "vote|checklist|new_answer", names(e(1).Tools))

	plan := stagetest.User(a(2))
	require.Contains(t, plan, "The aim of the next version: Name the moons.")
	require.Contains(t, plan, "- names: Add the names\n- table: Make a table\n- verify_preserve:")
	require.Contains(t, plan, "# Your turn\n\nCarry out your plan")
	require.Regexp(t, `- write_verification_memo: .*\n\nThe mark of messages`, plan)
	require.Contains(t, plan, "The criterion_findings of a careful evaluator.")
	require.Regexp(t, "get_task_plan.*update_task", names(a(2).Tools))
	require.NotContains(t, names(a(2).Tools), "checklist")
	require.Contains(t, lastResult(a(3)), `"id":"write_verification_memo"`)
	require.Contains(t, lastResult(a(4)), "The evidence_gaps of a careful evaluator.", "the packet is in the workspace")
	require.Contains(t, lastResult(a(5)), `"remaining":3`)

	require.Contains(t, names(a(8).Tools), "submit_checklist")
	require.Contains(t, stagetest.User(a(8)), "Count the lines of peers/agent1/moons.md.", "notes have their reader's paths")
	require.Contains(t, lastResult(a(9)), "report_required")
	require.Contains(t, lastResult(a(10)), `"verdict":"vote"`)

	root := artifact.InBucket(id)
	for _, name := range []string{"critique_packet.md", "verdict.json", "next_tasks.json", "transcript.jsonl"} {
		there, err := s.Store.Exists(t.Context(), root.Step("agent_a", 1, "evaluator/"+name))
		require.NoError(t, err)
		require.True(t, there, name)
	}
	there, err := s.Store.Exists(t.Context(), root.Step("agent_a", 2, "evaluator/next_tasks.json"))
	require.NoError(t, err)
	require.False(t, there, "a converged answer has no tasks")
	var verdict map[string]any
	s.ReadJSON(t, root.Step("agent_a", 1, "evaluator/verdict.json"), &verdict)
	require.Equal(t, []string{"scores", "verdict"}, keysOf(verdict))
	var manifest artifact.Manifest
	s.ReadJSON(t, root.Step("agent_a", 2, "workspace.json"), &manifest)
	for _, f := range manifest.Files {
		require.False(t, strings.HasPrefix(f.Path, "evaluator/"), "the evaluation is not part of the answer: %s", f.Path)
	}
	view := stagetest.State[acts.State](t, s).Agents[0]
	require.Equal(t, 3, view.Step, "evaluations are no steps of the agent")
	require.Equal(t, coordination.Converged, view.Evaluation.Verdict)
	require.Len(t, view.Evaluation.Scores, 5)
}

func keysOf(m map[string]any) []string {
	var keys []string
	for _, key := range []string{"improvements", "next_tasks", "preserve", "scores", "verdict"} {
		if _, ok := m[key]; ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// Seed 001, the degraded path: with invalid tasks, after one correction, the packet is the
// basis of the checklist. A failed evaluation leaves the agent as it was.
func TestEvaluator_degrades(t *testing.T) {
	t.Parallel()
	invalid := evaluation("iterate", 4, `{"objective": "Better."}`)
	s := stagetest.New(t, map[string][]any{"agent_a": {stagetest.Answer("Two."), invalid, invalid, stagetest.Vote("agent1")}}, evaluated)
	a := s.Cast["agent_a"].Prompts()
	require.Equal(t, "consensus", decide(t, s).Status)
	require.Contains(t, lastResult(a(3)), "preserve has to name")
	require.Contains(t, stagetest.User(a(4)), "An evaluation of agent1.1")
	require.NotContains(t, stagetest.User(a(4)), "# Your plan")
	require.Contains(t, stagetest.User(a(4)), "which is the report_path of your checklist")

	text := llm.Message{Role: llm.Assistant, Content: "It is fine."}
	s = stagetest.New(t, map[string][]any{"agent_a": {stagetest.Answer("Two."), text, text, text, stagetest.Vote("agent1")}}, evaluated)
	a = s.Cast["agent_a"].Prompts()
	require.Equal(t, "consensus", decide(t, s).Status)
	require.NotContains(t, stagetest.User(a(5)), "An evaluation of")
}

// stop_at_ceiling ends a session that no longer improves, as finished.
func TestEvaluator_stopsAtTheCeiling(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{"agent_a": {
		stagetest.Answer("Two."), evaluation("iterate", 5, tasksAt("ceiling_reached")),
		stagetest.Answer("Two moons, in a table."), evaluation("iterate", 5, tasksAt("ceiling_reached")),
	}}, func(t *config.Team) {
		evaluated(t)
		t.Orchestrator.Coordination.StopAtCeiling = true
		t.Orchestrator.Coordination.RoundEvaluatorTransformationPressure = "aggressive"
	})
	a := s.Cast["agent_a"].Prompts()
	result := decide(t, s)
	require.Equal(t, "finished", result.Status)
	require.Equal(t, "agent1.2", result.WinnerLabel)
	require.Contains(t, a(2).Messages[0].Content, "Search for a fundamentally better approach")
	require.Contains(t, stagetest.User(a(3)), "- Other approach: A table.\n- Keep: the number\n")
	require.Contains(t, stagetest.User(a(3)), "- table: Make a table\n- names: Add the names", "the other approach comes first")
}
