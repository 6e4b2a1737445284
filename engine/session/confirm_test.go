package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Seed 003, case 3: "Agent already decided to answer: agent sees update before
// submitting, can revise decision"; once per step, and not as a rejection.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*task)
		call   llm.ToolCall
		kind   string
	}{
		"new answer": {func(*task) {}, callAnswer("Two: Phobos, Deimos."), "new_answer"},
		"vote":       {func(*task) {}, vote("agent1"), "vote"},
		"stop":       {divided, call("stop", `{"summary": "Done.", "status": "complete"}`), "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			task := atWork(w, c.change)
			p := play(t, t.Context(), task,
				turn{calls: reply(call("write_file", "{}"), c.call).ToolCalls, while: func() { w.answer(2, 1, "Phobos.") }},
				turn{calls: reply(c.call).ToolCalls, while: func() { w.answer(3, 2, "Deimos.") }})
			require.NoError(t, p.err)
			require.Equal(t, c.kind, p.action.Kind)
			require.Len(t, p.requests, 2, "the second time it counts")
			require.Equal(t, []string{"write_file"}, p.ran, "the ordinary tools of the reply have run")
			require.NotContains(t, p.kinds(), loop.Rejection)
			golden(t, "confirm_"+c.kind, p.updates()[0])
			require.Contains(t, p.entries[2].Messages[1].Content, "Not submitted: something new came in")
			seen, _ := p.rules.witnessedSteps()
			require.Equal(t, map[int]int{1: 0, 2: 10, 3: 0}, seen, "it claims only the answers shown")
			p.requireRestores(t, task)
		})
	}
}

// A message that arrives while the agent decides withdraws the action, in every step and update
// mode.
func TestConfirm_messages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*task){
		"inject":       func(*task) {},
		"mode none":    func(t *task) { t.Updates.Mode = "" },
		"mode restart": func(t *task) { t.Updates.Mode = coordination.Restart },
		"vote only":    func(t *task) { t.Offered = []coordination.Action{coordination.Vote} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			task := atWork(w, change)
			p := play(t, t.Context(), task,
				turn{calls: reply(vote("agent1")).ToolCalls, while: func() { w.say(7, "Be brief.") }},
				turn{calls: reply(vote("agent3")).ToolCalls, while: func() { w.say(8, "In French.") }})
			require.NoError(t, p.err)
			require.JSONEq(t, `{"number": 3, "label": "agent3.1", "reason": "It is right."}`, string(p.action.Payload))
			require.Len(t, p.updates(), 1)
			require.Contains(t, p.updates()[0], "=== "+testPeople+" message 7 ===\nBe brief.\n=== "+testPeople+" message 7 ends ===")
			_, heard := p.rules.witnessedSteps()
			require.Equal(t, 7, heard)
			p.requireRestores(t, task)
		})
	}
}

// If no answers can be admitted, the action counts with the answers that were shown.
func TestConfirm_noNews(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*task){
		"mode none":           func(t *task) { t.Updates.Mode = "" },
		"mode restart":        func(t *task) { t.Updates.Mode = coordination.Restart },
		"vote only":           func(t *task) { t.Offered = []coordination.Action{coordination.Vote} },
		"near the soft limit": func(t *task) { t.Soft, t.Grace = 2*time.Minute, 2*time.Minute },
		"the budget is spent": func(t *task) { t.Allowance.Tokens = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			task := atWork(w, change)
			p := play(t, t.Context(), task, turn{
				calls: reply(vote("agent1")).ToolCalls, takes: time.Second,
				while: func() { w.answer(2, 1, "Two.") }, usage: llm.Usage{InputTokens: 10},
			})
			require.NoError(t, p.err)
			require.Empty(t, p.updates())
			seen, _ := p.rules.witnessedSteps()
			require.Equal(t, map[int]int{1: 0, 3: 0}, seen)
		})
	}
}

// DESIGN, "Human messages (say) are news": they reach presenters and evaluations, too,
// whose only call may be their last.
func TestConfirm_everyAction(t *testing.T) {
	t.Parallel()
	again := call("restart_orchestration", `{"reason": "It has no source.", "instructions": "Find one."}`)
	for name, c := range map[string]struct {
		change      func(*task)
		first, then llm.ToolCall
	}{
		"submit":  {evaluating, call("submit", "{}"), again},
		"restart": {evaluating, again, call("submit", "{}")},
		"present": {presenting, callAnswer("Two."), callAnswer("Two, in brief.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			task := atWork(w, c.change, func(t *task) { t.Updates.Mode = "" })
			p := play(t, t.Context(), task,
				turn{calls: reply(c.first).ToolCalls, while: func() { w.say(1, "Wait."); w.answer(3, 2, "Not for this step.") }},
				turn{calls: reply(c.then).ToolCalls, while: func() { w.say(2, "Too late.") }})
			require.NoError(t, p.err)
			require.Equal(t, c.then.Name, p.action.Kind)
			require.Len(t, p.requests, 2, "the second time it counts")
			golden(t, "hears_"+name, p.updates()[0])
			_, heard := p.rules.witnessedSteps()
			require.Equal(t, 1, heard)
			p.requireRestores(t, task)
		})
	}
}
