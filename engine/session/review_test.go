package session

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session/quality"
)

// critical makes t the evaluation of agent1.2.
func critical(t *task) {
	t.Purpose, t.Offered = coordination.Evaluation, []coordination.Action{coordination.SubmitEvaluation}
	t.Criteria = config.Criteria{{Text: "Names both moons.", Category: "primary", VerifyBy: "Look them up."}, {Text: "Gives a source."}}
	t.Label, t.Pressure = "agent1.2", "balanced"
}

// planned makes t the step after an evaluation with tasks.
func planned(t *task) {
	gated(t)
	files(t)
	t.Offered = []coordination.Action{coordination.NewAnswer}
	t.Packet, t.Label, t.PacketDir = "# Evaluation of agent1.2\n\n## evidence_gaps\n\nNone.", "agent1.2", "evaluator"
	t.Objective, t.Shift = "A list with sources.", "- Limit: Memory.\n- Other approach: Search.\n- Keep: the names"
	t.Plan = quality.NewPlan([]quality.PlanTask{{ID: "t1", Description: "Find a source."}}, []string{"the names"}, true)
}

// The steps of an evaluated team.
func TestOpening_evaluated(t *testing.T) {
	t.Parallel()
	requireOpenings(t, map[string]func(*task){
		"critique_alone":   func(t *task) { alone(t); critical(t); t.Label, t.Pressure = "agent1.2", "gentle" },
		"critique_divided": func(t *task) { divided(t); critical(t); t.Pressure = "aggressive" },
		"planned_divided":  func(t *task) { divided(t); planned(t); t.Plan = t.Plan[:1]; t.Files, t.Shift = false, "" },
		"reviewed": func(t *task) {
			planned(t)
			t.Plan = nil
			t.Checklist.Packet = "evaluator/critique_packet.md"
			t.Offered = t.stepActions()
		},
		"persona": func(t *task) { first(t); t.Persona = "Count twice."; t.SystemMessage = "Be brief." },
		"verification_memo": func(t *task) {
			files(t)
			t.Answers[0].Memo = "# Replay Steps\n\nCount the lines of peers/agent1/moons.md."
		},
		"present_memos": func(t *task) {
			presenting(t)
			t.Answers[0].Memo, t.Answers[1].Memo, t.MemoFile = "Counted.", "Looked up.", "memory/short_term/verification_latest.md"
		},
		"continued_critique": func(t *task) { critical(t); continued(t) },
	})
}

// submission returns a call of submit_evaluation.
func submission(t *testing.T, tasks string) llm.Message {
	t.Helper()
	return llm.Message{ToolCalls: []llm.ToolCall{{ID: "1", Name: "submit_evaluation", Arguments: `{
		"packet": {"criteria_interpretation": "a", "criterion_findings": "b", "cross_answer_synthesis": "c", "preserve": "d",
			"improvement_spec": "e", "verification_plan": "f", "evidence_gaps": "g"},
		"verdict": {"verdict": "iterate", "scores": {"E1": 4, "E2": 5}}, "next_tasks": ` + tasks + `}`}}}
}

const goodTasks = `{"objective": "o", "approach_assessment": {"ceiling_status": "ceiling_not_reached"},
	"tasks": [{"description": "d", "implementation_guidance": "g", "verification": "v"}], "preserve": ["p"]}`

// Invalid tasks are rejected once, with all faults. After that the evaluation counts without them.
func TestJudge_evaluation(t *testing.T) {
	t.Parallel()
	r := newRules(with(evaluation(), critical))
	ruling := r.Judge(submission(t, goodTasks))
	require.Equal(t, "submit_evaluation", ruling.Action.Kind)

	ruling = r.Judge(submission(t, `{"objective": ""}`))
	require.Equal(t, "invalid_tasks", ruling.Rejected)
	require.Contains(t, ruling.Results["1"], "objective has to name")
	require.Contains(t, ruling.Results["1"], "ceiling_status is")
	r.memory.faulty = true
	ruling = r.Judge(submission(t, `{"objective": ""}`))
	require.NotNil(t, ruling.Action)
	o, err := ReadOutcome(artifact.Commit{Kind: ruling.Action.Kind, Payload: ruling.Action.Payload})
	require.NoError(t, err)
	require.Equal(t, &coordination.Critique{Verdict: coordination.Iterate, Scores: []coordination.RoundScore{{ID: "E1", Score: 4}, {ID: "E2", Score: 5}}}, o.Critique)

	require.Equal(t, "invalid_arguments", r.Judge(calls("submit_evaluation", `{}`)).Rejected)
	require.Equal(t, "unknown_tool", r.Judge(calls("vote", `{"agent_id": "agent1", "reason": "r"}`)).Rejected, "an evaluator never votes")
	require.Equal(t, "unknown_tool", r.Judge(calls("submit_checklist", `{"scores": {}}`)).Rejected)
}

// calls returns a reply with one call.
func calls(name, arguments string) llm.Message {
	return llm.Message{ToolCalls: []llm.ToolCall{{ID: "1", Name: name, Arguments: arguments}}}
}

// A step with a plan has the plan's tools and no checklist, and keeps the changes of its tasks.
func TestJudge_plan(t *testing.T) {
	t.Parallel()
	r := newRules(with(evaluation(), planned))
	require.Equal(t, "unknown_tool", r.Judge(calls("submit_checklist", `{"scores": {}}`)).Rejected)
	require.Equal(t, "tool_not_offered", r.Judge(calls("vote", `{"agent_id": "agent1", "reason": "r"}`)).Rejected)

	ruling := r.Judge(calls("update_task", `{"task_id": "t1", "status": "completed"}`))
	require.Empty(t, ruling.Rejected)
	var n note
	require.NoError(t, json.Unmarshal(ruling.Note, &n))
	r.memory.planned = append(r.memory.planned, n.Plan...)
	require.Contains(t, r.Judge(calls("get_task_plan", `{}`)).Results["1"], `"id":"t1","description":"Find a source.","status":"completed"`)
}

func TestRelocate(t *testing.T) {
	t.Parallel()
	m := artifact.Manifest{Files: []artifact.File{{Path: "moons.md"}, {Path: "src/count.py"}, {Path: "notes"}}}
	for given, want := range map[string]string{
		"Run `src/count.py` on moons.md.":     "Run `peers/agent2/src/count.py` on peers/agent2/moons.md.",
		"moons.md":                            "peers/agent2/moons.md",
		"Run ./src/count.py":                  "Run peers/agent2/src/count.py",
		"notes, old/moons.md and xmoons.md":   "notes, old/moons.md and xmoons.md",
		"peers/agent1/moons.md is another's.": "peers/agent1/moons.md is another's.",
	} {
		require.Equal(t, want, relocatePaths(given, "peers/agent2", m))
	}
}
