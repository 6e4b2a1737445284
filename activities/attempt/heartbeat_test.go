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
)

// beating runs a heart whose reports are answered by answer, until its context
// ends, and returns the cause and after how long it ended.
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

// An attempt that the server does not hear ends itself before the server may
// have started another one.
func TestHeart_UnheardAttemptFencesItself(t *testing.T) {
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
		const heard = 2 * heartbeatInterval // the third report
		require.Greater(t, after, heard+fenceAfter-heartbeatInterval)
		require.Less(t, after, heard+HeartbeatTimeout, "the server would have given up by then")
	})
}

func TestHeart_ShortSilenceIsForgiven(t *testing.T) {
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
		require.ErrorIs(t, cause, errStopped, "it lives until the worker stops")
	})
}

// A server that accepts and never answers is as silent as one that is away.
func TestHeart_StalledServerFences(t *testing.T) {
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

func TestHeart_ServerEndsTheAttempt(t *testing.T) {
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

// What the next attempt must know is in the first report already: an attempt
// that is killed counts.
func TestHeart_ReportsVitals(t *testing.T) {
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

// The reason for waiting is in the heartbeat details while a step waits, and gone
// afterwards.
func TestHeart_ReportsTheReasonForWaiting(t *testing.T) {
	t.Parallel()
	h := newHeart(details{}, nil, nil)
	ctx := context.WithValue(t.Context(), heartKey{}, h)
	over := Waiting(ctx, "rate limited")
	require.Equal(t, "rate limited", h.current().Waiting)
	over()
	require.Empty(t, h.current().Waiting)

	Waiting(t.Context(), "outside of a step")()
}

// A process that was stopped goes on before its ticker has fired: whoever asks
// is told at once.
func TestHeart_AsksTheClock(t *testing.T) {
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
		require.NoError(t, h.alive(), "it was heard in between")
		time.Sleep(time.Nanosecond)
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, h.alive(), errFenced)
		require.ErrorIs(t, context.Cause(ctx), errFenced)
		require.ErrorIs(t, h.alive(), errFenced)
	})
}

// An acknowledgment says that the server had heard the attempt when it was
// asked. It may be read much later: after a stop, the answer is still there.
func TestHeart_AcknowledgmentCountsFromItsReport(t *testing.T) {
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

func TestHeart_RefusalIsNoAcknowledgment(t *testing.T) {
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
