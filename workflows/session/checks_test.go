package session_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/session"
)

// checked plays a session whose checks have the outcomes that verdicts returns for the agent
// of an answer.
func checked(c coordination.Config, verdicts func(agent string) (string, error)) *play {
	p := newPlay(c, map[string][]outcome{
		"agent_a": {gives(acts.StepResult{Outcome: session.Outcome{Action: coordination.NewAnswer}, Checks: []string{"x"}}), votesSurely(1)},
		"agent_b": {answers(), votesSurely(1)},
	})
	p.RegisterActivityWithOptions(func(_ context.Context, in acts.CheckInput) (acts.CheckResult, error) {
		v, err := verdicts(in.Answer.Agent)
		return acts.CheckResult{Verdicts: v}, err
	}, activity.RegisterOptions{Name: "RunChecks"})
	return p
}

// The user's check decides against the votes, and voters are shown the agents' checks only.
func TestChecks_decide(t *testing.T) {
	t.Parallel()
	p := checked(coordination.Config{Ballot: "checks_decide", Checks: []string{"user"}}, func(agent string) (string, error) {
		return map[string]string{"agent_a": "01", "agent_b": "11"}[agent], nil
	})
	result := p.run(t)
	require.Equal(t, "plurality", result.Status)
	require.Equal(t, "agent_b", result.Winner)
	require.Equal(t, coordination.ByChecks, result.DecidedBy)
	require.InDelta(t, 1.0, *result.Support.Checks, 1e-9)
	for _, l := range p.launched {
		if len(l.Shown) > 0 {
			require.Equal(t, []string{"x"}, l.Checks.Checks)
			require.Equal(t, coordination.CheckRow{Label: "agent2.1", Verdicts: "1"}, l.Checks.Rows[1])
		}
	}
}

// Checks that cannot be run are unknown: the votes decide.
func TestChecks_notRun(t *testing.T) {
	t.Parallel()
	p := checked(coordination.Config{Ballot: "checks_decide", Checks: []string{"user"}}, func(string) (string, error) {
		return "", temporal.NewNonRetryableApplicationError("no sandbox", "NoSandbox", nil)
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent_a", result.Winner)
	require.Nil(t, result.Support.Checks)
}
