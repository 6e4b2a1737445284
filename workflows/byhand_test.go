package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/workflows"
)

// Whoever completes a step's activity by hand has no answer in the store: it is
// no action, and the others decide.
func TestCompletedByHand(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0)},
		"agent_b": {func(activities.StepInput) (activities.StepResult, error) {
			return activities.StepResult{Step: 1, Action: coordination.NewAnswer}, nil
		}},
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent_a", result.Winner)
	last := p.records[len(p.records)-1].Status
	require.Equal(t, workflows.CompletedByHand, last.Agents[1].Error.Type)
	require.Zero(t, last.Agents[1].Answers)
}
