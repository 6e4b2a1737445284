package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/workflows"
	"conclave/workflows/session"
)

var threeCalls = attempt.Failure{Step: 1, Usage: llm.Usage{InputTokens: 300, ModelCalls: 3}}

// unreported is a team of two. agent_a answers and votes for itself. The first step of agent_b,
// with three model calls, is cancelled without a report, as the server cancels a step that waits
// for its next attempt.
func unreported(more ...outcome) *play {
	p := newPlay(coordination.Config{}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0)},
		"agent_b": append([]outcome{hangs()}, more...),
	})
	p.found = threeCalls
	return p
}

// The cost of a step that was suspended without a report counts, once.
func TestUnreportedSuspension(t *testing.T) {
	t.Parallel()
	p := unreported(answers(), votesFor("agent_a", 1, 0))
	p.at(5, func() { p.SignalWorkflow(workflows.PauseSignal, nil) })
	p.at(6, func() { p.SignalWorkflow(workflows.ResumeSignal, nil) })
	result := p.run(t)
	require.Equal(t, "consensus", result.Status)
	require.EqualValues(t, 7, result.Cost.ModelCalls)
	resumed := p.launched[2]
	require.Equal(t, "default-test-run-id-l2", resumed.ResumeFrom)
	require.False(t, resumed.Uncounted)
	require.Len(t, p.reckoned, 1)
	require.Equal(t, attempt.Ended{Token: "default-test-run-id-l2", Suspended: true, Cause: p.reckoned[0].Cause}, p.reckoned[0].Ended)
	require.Equal(t, "agent_b", p.reckoned[0].Launch.Agent)
}

// The relaunched step knows since when its model's server has been away, although the pause ended
// the step between two attempts.
func TestUnreportedOutage(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	p := unreported(hangs(), answers(), votesFor("agent_a", 1, 0))
	p.found.AwaySince = began
	for at := range 2 {
		p.at(5+2*at, func() { p.SignalWorkflow(workflows.PauseSignal, nil) })
		p.at(6+2*at, func() { p.SignalWorkflow(workflows.ResumeSignal, nil) })
	}
	require.Equal(t, "consensus", p.run(t).Status)
	require.Equal(t, []time.Time{began, began}, []time.Time{p.launched[2].AwaySince, p.launched[3].AwaySince})
	require.Zero(t, p.reckoned[0].AwaySince)
	require.Equal(t, began, p.reckoned[1].AwaySince, "that of the second launch")
}

// The answers that reached a step are in the timeline even if the step reported nothing.
func TestUnreportedInjection(t *testing.T) {
	t.Parallel()
	p := unreported(answers(), votesFor("agent_a", 1, 0))
	p.found.Seen = []coordination.Seen{{Agent: "agent_a", Step: 1}}
	p.at(5, func() { p.SignalWorkflow(workflows.PauseSignal, nil) })
	p.at(6, func() { p.SignalWorkflow(workflows.ResumeSignal, nil) })
	require.Equal(t, "consensus", p.run(t).Status)
	var labels []string
	for _, r := range p.records {
		for _, e := range r.Events {
			if e.Kind == coordination.EntryInjected {
				labels = append(labels, e.Agent+" "+e.Label)
			}
		}
	}
	require.Equal(t, []string{"agent_b agent1.1"}, labels)
}

// The cost of a step that the end of the session cut short counts.
func TestUnreportedEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*play){
		"finish":  func(p *play) { p.at(5, func() { p.SignalWorkflow(workflows.FinishSignal, nil) }) },
		"time up": func(p *play) { p.at(sessionTime-1, func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := unreported()
			end(p)
			require.EqualValues(t, 4, p.run(t).Cost.ModelCalls)
			require.Len(t, p.reckoned, 1)
			require.Equal(t, attempt.Ended{
				Token: "default-test-run-id-l2", Cause: coordination.Failure{Type: activities.Cancelled, Message: "the step was cut short"},
			}, p.reckoned[0].Ended)
		})
	}
}

// The cost of a step of a cancelled session is in its last record.
func TestUnreportedCancel(t *testing.T) {
	t.Parallel()
	p := unreported()
	p.at(5, p.CancelWorkflow)
	p.ExecuteWorkflow("Session", map[string]any{"query": "Who?", "session_id": "s1"})
	var result session.Result
	require.True(t, workflows.CanceledResult(p.GetWorkflowError(), &result))
	require.GreaterOrEqual(t, result.DurationSeconds, 5.0)
	last := p.records[len(p.records)-1]
	require.True(t, last.Over)
	require.EqualValues(t, 4, last.Status.Cost.ModelCalls)
	require.False(t, p.reckoned[0].Suspended)
}

// A budget is spent even if the step that spent it made no report.
func TestUnreportedBudget(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{Budget: coordination.Allowance{Tokens: 300}}, map[string][]outcome{"agent_a": {hangs(), answers()}})
	p.found = threeCalls
	p.at(5, func() { p.SignalWorkflow(workflows.PauseSignal, nil) })
	p.at(6, func() { p.SignalWorkflow(workflows.ResumeSignal, nil) })
	result := p.run(t)
	require.Equal(t, "failed", result.Status)
	require.Len(t, p.launched, 1)
	require.EqualValues(t, 300, result.Cost.InputTokens)
}
