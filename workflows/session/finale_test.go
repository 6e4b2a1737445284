package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/session"
	"conclave/workflows"
)

// One step presents the final answer and another judges it. The result names the winner's answer,
// and final/ has the presented one.
func TestFinale(t *testing.T) {
	t.Parallel()
	judged := gives(acts.StepResult{Outcome: session.Outcome{Action: coordination.Submit}})
	p := newPlay(coordination.Config{Strategy: "winner_present", MaxRestarts: 1}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0), answers(), func(in acts.StepInput) (acts.StepResult, error) {
			require.Equal(t, "agent1.final", in.Launch.Final.Label)
			return judged(in)
		}},
		"agent_b": {answers(), votesFor("agent_a", 1, 0)},
	})
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent_a", result.Winner)
	require.Equal(t, "agent1.1", result.WinnerLabel)
	require.Equal(t, "The answer.", result.Answer)
	require.Equal(t, []string{"agent_a ", "agent_a ", "agent_a evaluate", "agent_a present", "agent_b ", "agent_b "}, p.steps())
	require.Equal(t, 3, p.presented[0].Decision.Final.Step)
	require.Equal(t, "agent_a", *result.PresentedBy)
	require.Equal(t, "agent1.final", *result.FinalLabel)
}

// The result says who wrote a presented answer, and is silent about an answer that stands.
func TestFinale_PresentedBy(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string]string{"winner_present": "agent_b", "winner_reuse": ""} {
		p := newPlay(coordination.Config{Strategy: strategy, Presenter: "agent_b"}, map[string][]outcome{
			"agent_a": {answers(), votesFor("agent_a", 1, 0)},
			"agent_b": {answers(), votesFor("agent_a", 1, 0), answers()},
		})
		result := p.run(t)
		require.Equal(t, "agent1.1", result.WinnerLabel)
		if want == "" {
			require.Nil(t, result.PresentedBy)
			require.Nil(t, result.FinalLabel)
			continue
		}
		require.Equal(t, want, *result.PresentedBy)
		require.Equal(t, "agent2.final", *result.FinalLabel)
	}
}

// "The earlier attempt's best answer is never lost", and the team begins again.
func TestFinale_AnotherAttempt(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{MaxRestarts: 1}, map[string][]outcome{
		"agent_a": {
			answers(), votesFor("agent_a", 1, 0), gives(acts.StepResult{Outcome: session.Outcome{Action: coordination.RestartTeam, Choice: coordination.Choice{Reason: "No sources."}}}),
			hangs(),
		},
	})
	p.at(10, func() {
		require.Equal(t, 2, p.state(t).Attempt)
		require.Contains(t, p.details(t), "attempt 2")
		p.asks(t, workflows.FinishSignal, nil, nil)
	})
	result := p.run(t)
	require.Equal(t, "agent1.1", result.WinnerLabel)
	require.Equal(t, "The answer.", result.Answer)
}

// A presenter is paused like any step.
func TestFinale_Paused(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{Strategy: "winner_present"}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0), hangs(), answers()},
	})
	p.at(10, func() {
		require.Contains(t, p.details(t), "at the final answer")
		p.asks(t, workflows.PauseSignal, nil, nil)
	})
	p.at(20, func() { p.asks(t, workflows.ResumeSignal, nil, nil) })
	require.Equal(t, "consensus", p.run(t).Status)
	require.Contains(t, p.steps(), "agent_a present"+runID+"-l3")
}

// In decomposition the presenter joins the parts, and the operator sees blocked parts.
func TestDecomposition(t *testing.T) {
	t.Parallel()
	stop := func(status coordination.StopStatus, summary string) outcome {
		return gives(acts.StepResult{Outcome: session.Outcome{Action: coordination.Stop, Status: status, Summary: summary}})
	}
	p := newPlay(coordination.Config{Mode: coordination.Decomposition, Strategy: "synthesize"}, map[string][]outcome{
		"agent_a": {answers(), stop("blocked", "No | access.")},
		"agent_b": {answers(), stop("complete", "Done."), hangs()},
	})
	p.at(10, func() {
		require.Contains(t, p.details(t), `- agent_a is **blocked**: No \| access.`)
		p.asks(t, workflows.FinishSignal, nil, nil)
	})
	require.Equal(t, "finished", p.run(t).Status)
}
