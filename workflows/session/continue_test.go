package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/workflows"
	"conclave/workflows/session"
)

// nextRun returns the run that follows a continued one.
func nextRun(p *play) *play {
	next := newPlay(p.prepared.Coordination, p.scripts)
	next.SetContinuedExecutionRunID(runID)
	return next
}

// "Continue as new only while no step is running": a paused session takes its
// suspended steps and the rest of its time along.
func TestContinue_Paused(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, duo())
	p.at(100, func() { p.SetContinueAsNewSuggested(true) })
	p.at(200, func() {
		require.False(t, p.IsWorkflowCompleted(), "not while steps run")
		p.asks(t, workflows.PauseSignal, nil, nil)
	})
	in := p.runOn(t, session.Input{Query: "Who?", SessionID: "s1"})
	require.Equal(t, sessionTime-200, in.Continued.SecondsLeft)
	require.True(t, in.Continued.Core.View().Paused)
	require.Equal(t, in.Continued.Core.Events, in.Continued.Recorded, "all is on record")

	next := nextRun(p)
	start := next.Now()
	next.at(1, func() {
		require.True(t, next.state(t).Paused)
		require.Equal(t, true, next.log.memo(workflows.MemoPaused))
		require.Empty(t, next.steps())
	})
	next.at(3600, func() { next.asks(t, workflows.ResumeSignal, nil, nil) })
	next.scripts["agent_a"] = []outcome{hangs()}
	require.Equal(t, "timeout", next.runFrom(t, in).Status)
	require.Contains(t, next.steps(), "agent_a "+runID+"-l1", "a step resumes in the next run")
	require.Equal(t, (3600+sessionTime-200)*time.Second, next.Now().Sub(start).Truncate(time.Second))
}

func TestContinue_Parked(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{OnAgentFailure: "park"}, map[string][]outcome{
		"agent_a": {answers(), votesFor("agent_a", 1, 0)},
		"agent_b": {answers(), fails("AuthFailed", "tok")},
	})
	p.at(sessionTime, func() {
		p.SetContinueAsNewSuggested(true)
		p.asks(t, workflows.SaySignal, workflows.Request{Text: "Patience."}, nil)
	})
	in := session.Input{Query: "Who?", SessionID: "s1"}
	first := p.runOn(t, in)
	require.Equal(t, sessionTime, first.Continued.SecondsLeft)

	second := nextRun(p)
	second.at(10, func() {
		require.NotNil(t, second.state(t).Parked)
		require.Contains(t, second.log.memo(workflows.MemoParked), "agent_b")
		second.SetContinueAsNewSuggested(true)
		second.asks(t, workflows.SaySignal, workflows.Request{Text: "Wait."}, nil)
	})
	in = second.runOn(t, first)
	require.Equal(t, 2, in.Continued.Core.View().Messages)
	require.Equal(t, sessionTime, in.Continued.SecondsLeft, "it stood still all the time")

	third := nextRun(second)
	third.at(10, func() { third.asks(t, workflows.RetrySignal, nil, nil) })
	third.at(20, func() { third.SignalWorkflow(workflows.FinishSignal, nil) })
	third.scripts["agent_b"] = []outcome{hangs()}
	require.Equal(t, "finished", third.runFrom(t, in).Status)
	require.Contains(t, third.steps(), "agent_b tok")
}

// A session that continues as new loses no verb: neither those that arrive while the
// last records are written nor the first ones of the new run.
func TestContinue_NothingAskedIsLost(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{}, map[string][]outcome{"agent_a": {answers(), votesFor("agent_a", 1, 3)}})
	p.SetContinueAsNewSuggested(true)
	answered := false
	p.recording = func(acts.RecordInput) {
		p.recording = nil
		p.update(workflows.SaySignal, workflows.Request{Text: "By update."}, func(_ any, err error) {
			require.NoError(t, err)
			answered = true
		})
		p.SignalWorkflow(workflows.SaySignal, workflows.Request{Text: "By signal."})
	}
	in := p.runOn(t, session.Input{Query: "Who?", SessionID: "s1"})
	require.True(t, answered)
	require.Equal(t, 2, in.Continued.Core.View().Messages)
	last := p.records[len(p.records)-1]
	require.NotZero(t, last.Saved.Core.View().Messages, "an answered message is on record")

	next := nextRun(p)
	next.at(0, func() { next.asks(t, workflows.SaySignal, workflows.Request{Text: "To the new run."}, nil) })
	require.Equal(t, "consensus", next.runFrom(t, in).Status)
	require.Equal(t, false, next.log.memo(workflows.MemoPaused), "the previous run's memo is corrected")
	require.Equal(t, []coordination.Message{{Number: 1}, {Number: 2}, {Number: 3}}, next.launched[0].Messages)
	var events []int
	for _, r := range append(p.records, next.records...) {
		for _, e := range r.Events {
			events = append(events, e.Seq)
		}
	}
	for i, seq := range events {
		require.Equal(t, i+1, seq, "every event is recorded once, in order")
	}
	require.Len(t, events, next.state(t).Events)
}

// A later cancellation does not replace a decision. The last record is written again,
// because the interrupted activity may not have written its entries.
func TestCancel_AfterTheDecision(t *testing.T) {
	t.Parallel()
	p := newPlay(coordination.Config{SkipVoting: true}, map[string][]outcome{"agent_a": {answers()}})
	cancelled := false
	p.recording = func(in acts.RecordInput) {
		if in.Over && !cancelled {
			cancelled = true
			p.CancelWorkflow()
		}
	}
	result := p.run(t)
	require.True(t, cancelled)
	require.Equal(t, "presented", result.Status)
	require.Equal(t, "agent_a", result.Winner)
	require.Equal(t, "presented", p.log.memo(workflows.MemoStatus))
	last := p.recorded()
	require.True(t, last.Over)
	require.Equal(t, "presented", last.Status.Status)
	require.Len(t, last.Entries, 1, "the answer is in the ledger")
}
