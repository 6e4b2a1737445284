package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/session"
	"conclave/workflows"
)

// A step's activity that is completed by hand has no answer in the store: it is no
// action, and the others decide.
func TestCompletedByHand(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "x", "x-l2"} {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			p := newPlay(coordination.Config{}, map[string][]outcome{
				"agent_a": {answers(), votesFor("agent_a", 1, 0)},
				"agent_b": {func(acts.StepInput) (acts.StepResult, error) {
					return acts.StepResult{Token: token, Step: 1, Outcome: session.Outcome{Action: coordination.NewAnswer}}, nil
				}},
			})
			result := p.run(t)
			require.Equal(t, "consensus", result.Status)
			require.Equal(t, "agent_a", result.Winner)
			last := p.records[len(p.records)-1]
			require.True(t, last.Over)
			require.Equal(t, "CompletedByHand", last.Status.Agents[1].Error.Type)
			require.Zero(t, last.Status.Agents[1].Answers)
		})
	}
}

// A retry resumes from the step's journal.
func TestCompletedByHandAndRetried(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{OnAgentFailure: "park"}, map[string][]outcome{
		"agent_a": {
			func(acts.StepInput) (acts.StepResult, error) { return acts.StepResult{}, nil },
			answers(), votesFor("agent_a", 1, 0),
		},
	})
	p.at(5, func() { p.SignalWorkflow(workflows.RetrySignal, workflows.Request{}) })
	require.Equal(t, "consensus", p.run(t).Status)
	require.Equal(t, "default-test-run-id-l1", p.launched[1].ResumeFrom)
}
