//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/coordination"
)

// A session with a preparation and evaluations, replayed from the first event.
func TestUncachedQuality(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	scores := map[string]any{"E1": 4, "E2": 4}
	evaluation := func(converged bool) reply {
		return reply{tool: "submit_evaluation", arguments: submission(scores, converged)}
	}
	const criteria = `{"criteria": [{"text": "It counts.", "category": "primary", "primary": true}, {"text": "It names.", "category": "standard"}]}`
	model := newModelServer(t, map[string][]reply{
		"model-a": {plain("model-a", criteria), answer("Two."), answer("Two: Phobos and Deimos."), vote("agent1", "It is complete.")},
		"judge":   {evaluation(false), evaluation(true)},
	})
	stop := s.workTeam(model.teamWith(orchestrator(map[string]any{
		"voting_sensitivity": "checklist_gated",
		"coordination": map[string]any{
			"evaluation_criteria_generator":        map[string]any{"enabled": true, "min_criteria": 2, "max_criteria": 2},
			"round_evaluator_before_checklist":     true,
			"orchestrator_managed_round_evaluator": true,
			"round_evaluator":                      map[string]any{"backend": map[string]any{"type": "openai", "model": "judge", "base_url": model.URL + "/v1"}},
		},
	}), "agent_a"))
	t.Cleanup(stop)
	result := ended(t, s.start("evaluated"), "consensus")
	require.Equal(t, "agent1.2", result.WinnerLabel)
	require.EqualValues(t, 6, result.Cost.ModelCalls)
	require.Contains(t, model.request("model-a", 3), "Carry out your plan")
	require.Contains(t, model.request("judge", 1), "- E1 [primary]: It counts.")
	view := s.state("evaluated").Agents[0]
	require.Equal(t, coordination.Converged, view.Evaluation.Verdict)
	s.replay("evaluated", "evaluated")
}
