package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Seed 001, "Checklist mode is policy, not the core coordination primitive": its calls are
// answered, the step continues, and the verdict does not restrict the agent.
func TestChecklist(t *testing.T) {
	t.Parallel()
	task := with(evaluation(), gated)
	p := play(t, t.Context(), task,
		turn{calls: reply(reading, scores(3, "agent1.2", "agent3.1")).ToolCalls},
		turn{calls: reply(scores(9, "agent1.2", "agent3.1")).ToolCalls},
		turn{calls: reply(call("propose_improvements", `{}`), vote("agent1")).ToolCalls})
	require.NoError(t, p.err)
	require.Equal(t, "vote", p.action.Kind)
	require.Equal(t, []string{"read_file"}, p.ran)
	require.Equal(t, []string{"get_task_plan", "new_answer", "propose_improvements", "submit_checklist", "update_task", "vote"}, p.offered(0))
	require.Contains(t, p.entries[2].Messages[1].Content, `"verdict":"new_answer"`)
	require.Contains(t, p.entries[4].Messages[0].Content, "quota_used", "one is accepted in a step, also after a restart of the worker")
	require.Contains(t, p.entries[6].Messages[0].Content, "valid")
	p.requireRestores(t, task)
}

// A valid proposal becomes the plan of the step, also after a restart, until the next proposal
// replaces it.
func TestChecklist_plan(t *testing.T) {
	t.Parallel()
	task := with(with(evaluation(), gated), func(t *task) { t.Files = true })
	propose := func(plan string) llm.ToolCall {
		return call("propose_improvements", `{"improvements": {"E1": [{"plan": "`+plan+`", "impact": "structural", "sources": ["agent3.1"]}], "E2": ["Check."]}, "preserve": {"E2": "The table."}}`)
	}
	done := call("update_task", `{"task_id": "E1.1", "status": "completed"}`)
	p := play(t, t.Context(), task,
		turn{calls: reply(done).ToolCalls},
		turn{calls: reply(scores(3, "agent1.2", "agent3.1"), propose("Count again.")).ToolCalls},
		turn{calls: reply(done).ToolCalls},
		turn{calls: reply(call("get_task_plan", ``)).ToolCalls},
		turn{calls: reply(propose("Start anew."), call("get_task_plan", ``)).ToolCalls},
		turn{calls: reply(callAnswer("Better.")).ToolCalls})
	require.NoError(t, p.err)
	results := func(entry int) (texts string) {
		for _, m := range p.entries[entry].Messages {
			texts += m.Content
		}
		return texts
	}
	require.Contains(t, results(2), "You have no plan yet: a valid propose_improvements makes one.")
	require.Contains(t, results(4), `"task_id":"E1.1"`)
	require.Contains(t, results(6), `{"status":"ok","remaining":3}`)
	require.Contains(t, results(8), `{"id":"E1.1","description":"Count again.","implementation_guidance":"Build on agent3.1."`)
	require.Contains(t, results(8), `"status":"completed"`)
	require.Contains(t, results(8), `"preserve":["E2: The table."]`)
	require.Contains(t, results(8), `"id":"write_verification_memo","description":"Write memory/short_term/verification_latest.md`)
	require.Contains(t, results(10), `"description":"Start anew."`)
	require.NotContains(t, results(10), `"status":"completed"`)
	p.requireRestores(t, task)
}

// Seed 001, "default behavior blocks checklist before first answer unless
// checklist_first_answer: true"; and a step without a choice has no checklist.
func TestChecklist_absent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*task)
		has    bool
	}{
		"an own answer":          {func(*task) {}, true},
		"no own answer":          {func(t *task) { t.Checklist.Own = "" }, false},
		"no own answer, allowed": {func(t *task) { t.Checklist.Own, t.Checklist.FirstAnswer = "", true }, true},
		"vote only":              {func(t *task) { t.Offered = []coordination.Action{coordination.Vote} }, false},
		"presenter":              {presenting, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := newRules(with(with(evaluation(), gated), c.change))
			v := rules.Judge(reply(scores(3, "agent1.2", "agent3.1")))
			said := printed(t, rules)
			if c.has {
				require.Empty(t, v.Rejected)
				require.Contains(t, said, "submit_checklist")
			} else if rules.task.hasChecklist() {
				require.Equal(t, toolNotOffered, v.Rejected)
				require.Contains(t, said, "----- tool submit_checklist", "the others are offered it")
			} else {
				require.Equal(t, unknownTool, v.Rejected)
				require.NotContains(t, said, "submit_checklist")
			}
		})
	}
}

// Seed 001, "allow_midstream_peer_updates_before_checklist_submit: true keeps mid-stream
// peer updates enabled until the first accepted submit_checklist".
func TestUpdates_untilChecklist(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, gated, func(t *task) { t.Updates.UntilChecklist = true })
	p := play(t, t.Context(), task,
		turn{calls: reply(reading).ToolCalls, while: func() { w.answer(3, 2, "Deimos.") }},
		turn{calls: reply(scores(3, "agent1.2")).ToolCalls, while: func() { w.answer(2, 1, "One.") }},
		turn{calls: reply(scores(3, "agent1.2", "agent2.1", "agent3.2")).ToolCalls},
		turn{calls: reply(vote("agent1")).ToolCalls, while: func() { w.answer(4, 1, "Four.") }})
	require.NoError(t, p.err)
	require.Equal(t, []string{"agent3.2", "agent2.1"}, w.fetched)
	require.Contains(t, p.entries[5].Messages[0].Content, "missing_agent_scores", "a checklist that is refused closes nothing")
	seen, _ := p.rules.witnessedSteps()
	require.Equal(t, map[int]int{1: 0, 2: 10, 3: 20}, seen)
	p.requireRestores(t, task)
}

// Seed 001, "after injection updates arrive post-checklist, one bounded recheck is
// allowed".
func TestChecklist_recheck(t *testing.T) {
	t.Parallel()
	w := &world{}
	task := atWork(w, gated)
	p := play(t, t.Context(), task,
		turn{calls: reply(scores(3, "agent1.2", "agent3.1")).ToolCalls, while: func() { w.answer(2, 1, "Phobos, Deimos.") }},
		turn{calls: reply(scores(9, "agent2.1")).ToolCalls},
		turn{calls: reply(scores(9, "agent2.1")).ToolCalls},
		turn{calls: []llm.ToolCall{vote("agent2")}})
	require.NoError(t, p.err)
	require.Contains(t, p.updates()[0], "Score them with one more submit_checklist: agent2.1.")
	require.Contains(t, p.entries[5].Messages[0].Content, `"verdict":"vote"`)
	require.Contains(t, p.entries[7].Messages[0].Content, "quota_used")
	p.requireRestores(t, task)
}
