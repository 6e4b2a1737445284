package attempt

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"conclave/activities/workertest"
	"conclave/engine/step"
)

// process is a worker whose steps are scripted: each run of a step takes the next
// function.
type process struct {
	Process
	t      *testing.T
	begun  chan *Attempt
	starts atomic.Int64 // announced by Beginning
	script chan func(context.Context, *Attempt) (string, error)
}

func newProcess(t *testing.T, script ...func(context.Context, *Attempt) (string, error)) *process {
	t.Helper()
	p := &process{
		Process: Process{Equipment: &workertest.Worker{}, Server: &workertest.Worker{}, Steps: NewSteps(), Now: time.Now},
		t:       t, begun: make(chan *Attempt, len(script)), script: make(chan func(context.Context, *Attempt) (string, error), len(script)),
	}
	for _, f := range script {
		p.script <- f
	}
	return p
}

// ended is the end of an activity.
type ended struct {
	result string
	err    error
}

// attempt makes an attempt of the one step.
func (p *process) attempt() <-chan ended {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		ctx = Beginning(ctx, func() { p.starts.Add(1) })
		return Run(ctx, p.Process, "l1", func(ctx context.Context, a *Attempt) (string, error) {
			ctx, stop := a.startHeart(ctx)
			defer stop()
			p.begun <- a
			return (<-p.script)(ctx, a)
		})
	}, activity.RegisterOptions{Name: "step"})
	end := make(chan ended, 1)
	go func() {
		var e ended
		value, err := env.ExecuteActivity("step")
		if e.err = err; err == nil {
			e.err = value.Get(&e.result)
		}
		end <- e
	}()
	return end
}

func taskOf(h *heart) *task {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.task
}

func requireFenced(t *testing.T, e ended) {
	t.Helper()
	application, ok := errors.AsType[*temporal.ApplicationError](e.err)
	require.True(t, ok, "%v", e.err)
	require.Equal(t, step.Fenced, application.Type())
}

// thinking is a step in a model call until release is closed; then it has an effect.
func thinking(release <-chan struct{}) func(context.Context, *Attempt) (string, error) {
	return func(ctx context.Context, a *Attempt) (string, error) {
		<-release
		if err := a.heart.awaitFence(ctx); err != nil {
			return "", applicationError(err, classOf(err))
		}
		return "its reply", nil
	}
}

// The server gives up an attempt whose heartbeats lag. The step goes on in its model
// call, and the next attempt that comes to this process gets its result.
func TestRun_adoptsTheRunningStep(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(h *heart){
		"after the refusal of a heartbeat": func(h *heart) { h.loseTask(taskOf(h)) },
		"before":                           func(*heart) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			p := newProcess(t, thinking(release))
			first := p.attempt()
			lose((<-p.begun).heart)
			second := p.attempt()
			requireFenced(t, <-first)
			close(release)
			require.Equal(t, ended{result: "its reply"}, <-second)
			require.EqualValues(t, 1, p.starts.Load(), "the adopted step is not started again")
			require.Empty(t, p.Steps.running)
			require.Empty(t, p.Steps.hearts)
		})
	}
}

// A process whose heartbeats are late gives back an attempt of a step that it does not run,
// at no cost, and still adopts those of its running steps.
func TestRun_lateHeartbeats(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	p := newProcess(t, thinking(release), func(context.Context, *Attempt) (string, error) { return "taken", nil })
	first := p.attempt()
	late := newHeart(p.Steps, HeartbeatTimeout, details{})
	late.task, late.acked = &task{}, time.Now().Add(-HeartbeatTimeout)
	<-p.begun
	leave := p.Steps.registerHeart(late)
	p.Steps.recheck()

	second := p.attempt()
	requireFenced(t, <-first)
	close(release)
	require.Equal(t, ended{result: "its reply"}, <-second)

	p.Steps.recheck()
	refused, ok := errors.AsType[*temporal.ApplicationError]((<-p.attempt()).err)
	require.True(t, ok)
	require.Equal(t, "WorkerLagging", refused.Type())
	require.Equal(t, temporal.ApplicationErrorCategoryBenign, refused.Category())
	require.False(t, refused.NonRetryable())
	require.GreaterOrEqual(t, refused.NextRetryDelay(), time.Second)
	require.EqualValues(t, 1, p.starts.Load(), "nothing begins")
	leave()
	p.Steps.recheck()
	require.Equal(t, ended{result: "taken"}, <-p.attempt())
	require.EqualValues(t, 2, p.starts.Load())
}

// recheck makes the next Lagging look at the hearts.
func (s *Steps) recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked = time.Time{}
}

// A step that ends because of its lost attempt is started again by the next one.
func TestRun_startsAnEndingStepAgain(t *testing.T) {
	t.Parallel()
	again := func(context.Context, *Attempt) (string, error) { return "started again", nil }
	t.Run("it was ending", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		p := newProcess(t, func(ctx context.Context, _ *Attempt) (string, error) {
			<-release
			return "", context.Cause(ctx)
		}, again)
		first := p.attempt()
		(<-p.begun).heart.endStep(activity.ErrActivityReset)
		second := p.attempt()
		close(release)
		require.Error(t, (<-first).err)
		require.Equal(t, ended{result: "started again"}, <-second)
	})
	t.Run("another worker overtook it", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		p := newProcess(t, func(context.Context, *Attempt) (string, error) {
			<-release
			return "", applicationError(errFenced, classOf(errFenced))
		}, again)
		first := p.attempt()
		a := <-p.begun
		second := p.attempt()
		requireFenced(t, <-first)
		require.NotNil(t, taskOf(a.heart))
		close(release)
		require.Equal(t, ended{result: "started again"}, <-second)
	})
}

// Cancelling an adopted step ends it.
func TestRun_cancelsTheAdoptedStep(t *testing.T) {
	t.Parallel()
	p := newProcess(t, func(ctx context.Context, _ *Attempt) (string, error) {
		<-ctx.Done()
		return "", temporal.NewCanceledError("cut short")
	})
	first := p.attempt()
	a := <-p.begun
	second := p.attempt()
	requireFenced(t, <-first)
	a.heart.endStep(context.Canceled)
	canceled, ok := errors.AsType[*temporal.CanceledError]((<-second).err)
	require.True(t, ok)
	var why string
	require.NoError(t, canceled.Details(&why))
	require.Equal(t, "cut short", why)
}

// A panic ends the attempt, not the process.
func TestRun_panic(t *testing.T) {
	t.Parallel()
	var none []string
	p := newProcess(t, func(context.Context, *Attempt) (string, error) { return none[len(none)], nil })
	require.ErrorContains(t, (<-p.attempt()).err, "the step panicked: runtime error: index out of range")
	require.Empty(t, p.Steps.running)
}
