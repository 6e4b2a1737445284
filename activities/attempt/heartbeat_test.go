package attempt

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

// beating runs a heart whose reports get answers from answer, until its context ends,
// and returns the cause and the time until then.
func beating(t *testing.T, stop <-chan struct{}, answer func(n int) error) (cause error, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	h := newHeart(details{}, cancel, func(context.Context, details) error {
		n++
		return answer(n)
	})
	began := time.Now()
	h.run(ctx, stop)
	return context.Cause(ctx), time.Since(began)
}

// An attempt without acknowledged heartbeats ends itself before the server may have
// started another one.
func TestHeart_unacknowledgedAttemptFencesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("connection refused")
		cause, after := beating(t, nil, func(n int) error {
			if n <= 3 {
				return nil
			}
			return away
		})
		require.ErrorIs(t, cause, errFenced)
		const acked = 2 * heartbeatInterval // the third report
		require.Greater(t, after, acked+fenceAfter-heartbeatInterval)
		require.Less(t, after, acked+HeartbeatTimeout, "the server would have given up by then")
	})
}

func TestHeart_toleratesAShortSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(stop) })
		cause, _ := beating(t, stop, func(n int) error {
			if n%3 == 0 {
				return nil
			}
			return errors.New("a blip")
		})
		require.ErrorIs(t, cause, errStopped, "it beats until the worker stops")
	})
}

// A server that accepts requests but never answers counts as silent.
func TestHeart_stalledServerFences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		h := newHeart(details{}, cancel, func(ctx context.Context, _ details) error {
			<-ctx.Done()
			return ctx.Err()
		})
		h.run(ctx, nil)
		require.ErrorIs(t, context.Cause(ctx), errFenced)
	})
}

func TestHeart_serverEndsTheAttempt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ answer, cause error }{
		"cancelled": {temporal.NewCanceledError(), context.Canceled},
		"paused":    {activity.ErrActivityPaused, activity.ErrActivityPaused},
		"reset":     {activity.ErrActivityReset, activity.ErrActivityReset},
		"timed out": {serviceerror.NewNotFound("no such activity"), errFenced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cause, after := beating(t, nil, func(n int) error {
					if n == 1 {
						return nil
					}
					return tt.answer
				})
				require.ErrorIs(t, cause, tt.cause)
				require.Equal(t, heartbeatInterval, after)
			})
		})
	}
}

// The first report has the details for the next attempt, so that a killed attempt
// counts.
func TestHeart_reportsDetailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reported atomic.Int64
		ctx, cancel := context.WithCancelCause(t.Context())
		h := newHeart(details{Fruitless: 2}, cancel, func(_ context.Context, v details) error {
			reported.Store(int64(v.Fruitless))
			return nil
		})
		go h.run(ctx, nil)
		synctest.Wait()
		require.Equal(t, int64(2), reported.Load())
		cancel(nil)
		synctest.Wait()
	})
}

// The reason for waiting is in the heartbeat details only while the step waits.
func TestWaiting_isInTheHeartbeatDetails(t *testing.T) {
	t.Parallel()
	h := newHeart(details{}, nil, nil)
	ctx := context.WithValue(t.Context(), heartKey{}, h)
	over := Waiting(ctx, "rate limited")
	require.Equal(t, "rate limited", h.current().Waiting)
	over()
	require.Empty(t, h.current().Waiting)

	Waiting(t.Context(), "outside of a step")()
}

// The reason for which an earlier attempt waited is not this one's.
func TestPrevious_dropsTheReasonForWaiting(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetHeartbeatDetails(details{Fruitless: 2, Waiting: "rate limited"})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		require.Equal(t, details{Fruitless: 2}, previous(ctx))
		return nil
	}, activity.RegisterOptions{Name: "do"})
	_, err := env.ExecuteActivity("do")
	require.NoError(t, err)
}

// After a suspension the process runs before its ticker fires, so alive reads the clock.
func TestHeart_aliveReadsTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		h := newHeart(details{}, cancel, func(context.Context, details) error { return nil })
		require.NoError(t, h.alive())
		time.Sleep(fenceAfter)
		require.NoError(t, h.alive())
		require.NoError(t, h.report(ctx))
		time.Sleep(fenceAfter)
		require.NoError(t, h.alive(), "a report was acknowledged in between")
		time.Sleep(time.Nanosecond)
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, h.alive(), errFenced)
		require.ErrorIs(t, context.Cause(ctx), errFenced)
		require.ErrorIs(t, h.alive(), errFenced)
	})
}

// An acknowledgment proves only that the server had the report when it was sent: after
// a suspension it may be read much later.
func TestHeart_acknowledgmentCountsFromItsReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		h := newHeart(details{}, cancel, func(context.Context, details) error {
			time.Sleep(fenceAfter + time.Second)
			return nil
		})
		require.NoError(t, h.report(ctx))
		require.ErrorIs(t, h.alive(), errFenced)
	})
}

func TestHeart_refusalIsNoAcknowledgment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		h := newHeart(details{}, cancel, func(context.Context, details) error { return errors.New("away") })
		time.Sleep(fenceAfter)
		require.Error(t, h.report(ctx))
		time.Sleep(time.Second)
		require.ErrorIs(t, h.alive(), errFenced)
	})
}
