package activities

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

	"conclave/engine/llm"
)

// beating runs a heart whose reports are answered by answer, until its context
// ends, and returns the cause and after how long it ended.
func beating(t *testing.T, stop <-chan struct{}, answer func(n int) error) (cause error, after time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	h := newHeart(vitals{}, cancel, func(context.Context, vitals) error {
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
		h := newHeart(vitals{}, cancel, func(ctx context.Context, _ vitals) error {
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
		h := newHeart(vitals{Fruitless: 2}, cancel, func(_ context.Context, v vitals) error {
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

// What a step waits for is seen while it waits, by whoever looks at the activity.
func TestHeart_TellsWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	var seen []string
	f := newFloor(t, func(ctx context.Context) (llm.Message, error) {
		h, ok := ctx.Value(heartKey{}).(*heart)
		require.True(t, ok, "the model is called within the step")
		look := func() { seen = append(seen, h.read().Waiting) }
		over := Waiting(ctx, "rate limited")
		look()
		over()
		look()
		return llm.Message{}, &llm.Error{Kind: llm.AuthFailed}
	})
	f.SetHeartbeatDetails(vitals{Waiting: "what the attempt before waited for"})
	_, err := f.run(answering())
	require.Error(t, err)
	require.Equal(t, []string{"rate limited", ""}, seen)

	Waiting(t.Context(), "outside of a step")()
}

// A process that was stopped goes on before its ticker has fired: whoever asks
// is told at once.
func TestHeart_AsksTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		h := newHeart(vitals{}, cancel, func(context.Context, vitals) error { return nil })
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
		h := newHeart(vitals{}, cancel, func(context.Context, vitals) error {
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
		h := newHeart(vitals{}, cancel, func(context.Context, vitals) error { return errors.New("away") })
		time.Sleep(fenceAfter)
		require.Error(t, h.report(ctx))
		time.Sleep(time.Second)
		require.ErrorIs(t, h.alive(), errFenced)
	})
}
