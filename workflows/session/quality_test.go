package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	sessionacts "conclave/activities/session"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/session"
	"conclave/engine/session/quality"
	sessionflow "conclave/workflows/session"
	"conclave/workflows/stagetest"
)

// decide plays a session about the moons of Mars.
func decide(t *testing.T, s *stagetest.Stage) sessionflow.Result {
	t.Helper()
	return stagetest.Play[sessionflow.Result](t, s, sessionflow.Type, sessionflow.Input{Query: "How many moons has Mars?"})
}

const moonCriteria = `{"criteria": [
	{"text": "It counts the moons.", "category": "primary", "primary": true, "verify_by": "Count.", "anti_patterns": []},
	{"text": "It names them.", "category": "standard", "primary": false, "verify_by": "Look them up.", "anti_patterns": []}]}`

// Seed 001: criteria are generated before the agents begin, once, and are the same for all.
func TestQuality_generatedCriteria(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Text(moonCriteria), stagetest.Answer("Two."), stagetest.Vote("agent1")},
		"agent_b": {stagetest.Answer("2"), stagetest.Vote("agent1")},
	}, func(c *config.Team) {
		g := &c.Orchestrator.Coordination.EvaluationCriteriaGenerator
		g.Enabled, g.MinCriteria, g.MaxCriteria = true, 2, 3
	})
	a, b := s.Cast["agent_a"].Prompts(), s.Cast["agent_b"].Prompts()
	result := decide(t, s)
	require.Equal(t, "consensus", result.Status)
	require.EqualValues(t, 5, result.Cost.ModelCalls, "one call more than without criteria")
	require.NotNil(t, a(1).Form)
	require.Empty(t, a(1).Tools)
	for _, prompt := range []string{stagetest.User(a(2)), stagetest.User(b(1)), stagetest.User(a(3))} {
		require.Contains(t, prompt, "- [primary] It counts the moons.")
		require.Contains(t, prompt, "It names them.")
	}
	var stored session.CriteriaMade
	s.ReadJSON(t, "sessions/default-test-workflow-id/eval_criteria.json", &stored)
	require.Len(t, stored.Criteria, 2)
	require.Empty(t, stored.Fallback)
	var state sessionacts.State
	s.ReadJSON(t, "sessions/default-test-workflow-id/status.json", &state)
	require.Equal(t, []string{"It counts the moons.", "It names them."}, state.Preparations[0].Items)
}

// An invalid reply is not requested again: the preset is used instead, and the call counts.
func TestQuality_criteriaFallBack(t *testing.T) {
	t.Parallel()
	preset := "research"
	for name, c := range map[string]struct {
		preset *string
		want   string
	}{
		"to the preset":   {&preset, "The question itself is answered"},
		"to the built-in": {nil, quality.Defaults()[0].Text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stagetest.New(t, map[string][]any{"agent_a": {stagetest.Text("I would rather not."), stagetest.Answer("Two."), stagetest.Vote("agent1")}}, func(t *config.Team) {
				t.Orchestrator.Coordination.EvaluationCriteriaGenerator.Enabled = true
				t.Orchestrator.Coordination.CriteriaPreset = c.preset
			})
			a := s.Cast["agent_a"].Prompts()
			result := decide(t, s)
			require.EqualValues(t, 3, result.Cost.ModelCalls)
			require.Contains(t, stagetest.User(a(2)), c.want)
			var state sessionacts.State
			s.ReadJSON(t, "sessions/default-test-workflow-id/status.json", &state)
			require.Contains(t, state.Preparations[0].Fallback, "no JSON object")
		})
	}
}

// A preset costs no call.
func TestQuality_preset(t *testing.T) {
	t.Parallel()
	preset := "code"
	s := stagetest.New(t, map[string][]any{"agent_a": {stagetest.Answer("Two."), stagetest.Vote("agent1")}}, func(t *config.Team) {
		t.Orchestrator.Coordination.CriteriaPreset = &preset
	})
	a := s.Cast["agent_a"].Prompts()
	require.EqualValues(t, 2, decide(t, s).Cost.ModelCalls)
	require.Contains(t, stagetest.User(a(1)), "Tests fail when the behaviour breaks.")
}

// Seed 001: a persona lasts until its agent sees a peer's answer, and then changes as configured.
func TestQuality_personas(t *testing.T) {
	t.Parallel()
	for after, later := range map[string]string{"drop": "", "soften": "without being bound to it", "keep": "# Your approach\n\nCount twice."} {
		t.Run(after, func(t *testing.T) {
			t.Parallel()
			s := stagetest.New(t, map[string][]any{
				"agent_a": {stagetest.Text(`{"agent1": "Count twice.", "agent2": "Look it up."}`), stagetest.Answer("Two."), stagetest.Vote("agent1")},
				"agent_b": {stagetest.Answer("2"), stagetest.Vote("agent1")},
			}, func(t *config.Team) {
				g := &t.Orchestrator.Coordination.PersonaGenerator
				g.Enabled, g.AfterFirstAnswer = true, after
			})
			a, b := s.Cast["agent_a"].Prompts(), s.Cast["agent_b"].Prompts()
			require.EqualValues(t, 5, decide(t, s).Cost.ModelCalls)
			require.Contains(t, stagetest.User(a(2)), "# Your approach\n\nCount twice.")
			require.Contains(t, stagetest.User(b(1)), "# Your approach\n\nLook it up.")
			if later == "" {
				require.NotContains(t, stagetest.User(a(3)), "Count twice.")
			} else {
				require.Contains(t, stagetest.User(a(3)), later)
			}
			var stored session.PersonasMade
			s.ReadJSON(t, "sessions/default-test-workflow-id/personas.json", &stored)
			require.Equal(t, map[string]string{"agent_a": "Count twice.", "agent_b": "Look it up."}, stored.Personas)
		})
	}
}

// Seed 001: where no agent has a subtask, the work is divided once; a failed call gives equal
// parts and ends nothing.
func TestQuality_decomposer(t *testing.T) {
	t.Parallel()
	stop := stagetest.Call("stop", map[string]string{"status": "complete", "summary": "Done."})
	for name, c := range map[string]struct {
		reply any
		want  string
	}{
		"divided":     {stagetest.Text(`{"agent1": {"subtask": "Count them.", "criteria": [{"text": "The count is right."}]}, "agent2": "Name them."}`), "Count them."},
		"equal parts": {&llm.Error{Kind: llm.BadRequest, Message: "no such parameter"}, "Part 1 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stagetest.New(t, map[string][]any{
				"agent_a": {c.reply, stagetest.Answer("Two."), stop},
				"agent_b": {stagetest.Answer("Phobos and Deimos."), stop, stagetest.Answer("Two: Phobos and Deimos.")},
			}, func(t *config.Team) { t.Orchestrator.CoordinationMode = coordination.Decomposition })
			a, b := s.Cast["agent_a"].Prompts(), s.Cast["agent_b"].Prompts()
			result := decide(t, s)
			require.Equal(t, "presented", result.Status)
			require.Contains(t, stagetest.User(a(2)), c.want)
			require.Contains(t, stagetest.User(b(1)), "- agent1: "+c.want, "the others see the part")
			require.Contains(t, stagetest.User(b(3)), c.want, "the presenter too")
			if name == "divided" {
				require.Contains(t, stagetest.User(a(2)), "The count is right.")
				require.NotContains(t, stagetest.User(b(1)), "The count is right.", "criteria are the part's own")
			}
		})
	}
}

// Everything is off by default: no call and no file beyond those of the protocol.
func TestQuality_costsNothingWhenOff(t *testing.T) {
	t.Parallel()
	s := stagetest.New(t, map[string][]any{
		"agent_a": {stagetest.Answer("Two."), stagetest.Vote("agent1")}, "agent_b": {stagetest.Answer("2"), stagetest.Vote("agent1")},
	}, nil)
	a := s.Cast["agent_a"].Prompts()
	result := decide(t, s)
	require.EqualValues(t, 4, result.Cost.ModelCalls)
	require.Equal(t, 2, s.Cast["agent_a"].Asked)
	for _, section := range []string{"# Criteria", "# Your approach", "# Your plan", "# An evaluation", "# Verification notes"} {
		require.NotContains(t, stagetest.User(a(2)), section)
	}
	for key, err := range s.Store.List(t.Context(), artifact.InBucket("default-test-workflow-id").Root()) {
		require.NoError(t, err)
		require.False(t, strings.Contains(key, "personas") || strings.Contains(key, "subtasks") || strings.Contains(key, "criteria") || strings.Contains(key, "evaluator"), key)
	}
}
