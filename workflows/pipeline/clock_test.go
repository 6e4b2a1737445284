package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/pipeline"
)

// timed runs flow in a workflow whose run has a limit in seconds.
func timed(t *testing.T, limit int, flow func(p *run)) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		graph := pipeline.Graph{Start: "main", Steps: []pipeline.Node{{Name: "main", Kind: pipeline.Agent, MaxIterations: 50}}, MaxTransitions: 9, Seconds: limit}
		flow(&run{ctx: ctx, core: pipeline.New(graph)})
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
}

// pass waits for the clock or for a time, and reports whether the clock rang first.
func (p *run) pass(d time.Duration) (rang bool) {
	timer := workflow.NewTimer(p.ctx, d)
	selector := workflow.NewSelector(p.ctx)
	p.selectClock(selector)
	selector.AddFuture(timer, func(workflow.Future) {}).Select(p.ctx)
	return !timer.IsReady()
}

// The time of a run stands still while it is paused.
func TestClock(t *testing.T) {
	t.Parallel()
	timed(t, 60, func(p *run) {
		p.setClock(nil)
		require.InDelta(t, 60, *p.secondsLeft(), 0.01, "before the start")
		p.windClock()
		require.False(t, p.pass(20*time.Second))
		require.InDelta(t, 40, *p.secondsLeft(), 0.01)
		p.windClock() // winding a running clock changes nothing
		require.InDelta(t, 40, *p.secondsLeft(), 0.01)

		p.core.Step(pipeline.Pause{})
		p.windClock()
		require.False(t, p.pass(time.Hour), "a paused run has no time limit")
		require.InDelta(t, 40, *p.secondsLeft(), 0.01)

		p.core.Step(pipeline.Resume{})
		p.windClock()
		require.False(t, p.pass(39*time.Second))
		require.True(t, p.pass(2*time.Second))
		require.Nil(t, p.clock.up)
		p.core.Drain()
		require.NotNil(t, p.core.Result, "the core ends the run")
		require.Contains(t, p.core.Result.Reason, "limits.seconds")
		require.Zero(t, *p.secondsLeft())
	})
}

// A run that another execution hands over keeps the time that it had left.
func TestClock_handedOver(t *testing.T) {
	t.Parallel()
	timed(t, 60, func(p *run) {
		p.setClock(new(12.5))
		require.InDelta(t, 12.5, *p.secondsLeft(), 0.01)
		p.windClock()
		require.True(t, p.pass(13*time.Second))
	})
	timed(t, 60, func(p *run) {
		p.setClock(new(0.0))
		p.windClock()
		require.True(t, p.pass(time.Second), "nothing is left")
	})
}

func TestClock_withoutALimit(t *testing.T) {
	t.Parallel()
	timed(t, 0, func(p *run) {
		p.setClock(nil)
		p.windClock()
		require.Nil(t, p.clock.up)
		require.Nil(t, p.secondsLeft())
		require.False(t, p.pass(24*time.Hour))
	})
}
