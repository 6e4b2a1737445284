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

	"conclave/engine/coordination"
)

const testTimeout = time.Minute

var errAway = errors.New("connection refused")

// patient is the heart of a step, whose reports get answers from beat.
func patient(ctx context.Context, beat func(context.Context, details) error) (*heart, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := newHeart(NewSteps(), testTimeout, details{})
	h.cancel = cancel
	h.beat = func(ctx context.Context, _ []byte, d details) error { return beat(ctx, d) }
	h.attachTask([]byte("attempt 1"))
	return h, ctx
}

// silent is a server without answers.
func silent(ctx context.Context, _ details) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTiming_isDerivedFromTheTimeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration][3]time.Duration{
		10 * time.Second: {2500 * time.Millisecond, 3750 * time.Millisecond, 8 * time.Second},
		30 * time.Second: {7500 * time.Millisecond, 11250 * time.Millisecond, 24 * time.Second},
		time.Minute:      {15 * time.Second, 22500 * time.Millisecond, 48 * time.Second},
	} {
		require.Equal(t, want, [3]time.Duration{beatInterval(timeout), lagAfter(timeout), fenceAfter(timeout)})
	}
}

func TestHeart_beatsAtOnceAndThenInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var beats []time.Duration
		h, ctx := patient(t.Context(), func(context.Context, details) error {
			beats = append(beats, time.Since(began))
			return nil
		})
		go h.sendBeats(ctx)
		time.Sleep(10 * testTimeout)
		h.endStep(nil)
		synctest.Wait()
		require.Equal(t, firstBeat, beats[0], "a killed attempt counts from the first report on")
		require.InDelta(t, 42, len(beats), 2)
		for i, at := range beats[1:] {
			require.LessOrEqual(t, at-beats[i], beatInterval(testTimeout))
		}
	})
}

// A failed report is repeated well before the next one is due.
func TestHeart_repeatsAFailedReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		h, ctx := patient(t.Context(), func(context.Context, details) error {
			if n++; n%2 == 0 {
				return nil
			}
			return errAway
		})
		go h.sendBeats(ctx)
		for range 600 {
			time.Sleep(time.Second)
			fenced, _, _ := h.isFenced()
			require.False(t, fenced)
			require.False(t, h.isLate(time.Now()))
		}
		h.endStep(nil)
		synctest.Wait()
	})
}

// A step without acknowledged heartbeats has no effects before the server may have started
// another attempt, and goes on when a heartbeat is acknowledged after all.
func TestHeart_lateAcknowledgementLiftsTheFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		h, ctx := patient(t.Context(), func(ctx context.Context, d details) error {
			if back.Load() {
				return nil
			}
			return silent(ctx, d)
		})
		go h.sendBeats(ctx)
		require.NoError(t, h.awaitFence(ctx))
		tool, stop := h.fenceContext(ctx)
		defer stop()
		time.Sleep(fenceAfter(testTimeout) - time.Second)
		require.NoError(t, h.awaitFence(ctx))
		require.NoError(t, tool.Err())
		require.True(t, h.isLate(time.Now()))
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, context.Cause(tool), errFenced, "tools are stopped")
		require.NoError(t, ctx.Err(), "a model call in flight is not")

		began := time.Now()
		time.AfterFunc(time.Hour, func() { back.Store(true) })
		require.NoError(t, h.awaitFence(ctx))
		require.InDelta(t, time.Hour, time.Since(began), float64(testTimeout))
		h.endStep(nil)
	})
}

func TestHeart_serverEndsTheStep(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ answer, cause error }{
		"cancelled": {temporal.NewCanceledError(), context.Canceled},
		"paused":    {activity.ErrActivityPaused, activity.ErrActivityPaused},
		"reset":     {activity.ErrActivityReset, activity.ErrActivityReset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				h, ctx := patient(t.Context(), func(context.Context, details) error {
					if n++; n == 1 {
						return nil
					}
					return tt.answer
				})
				began := time.Now()
				h.sendBeats(ctx)
				require.ErrorIs(t, context.Cause(ctx), tt.cause)
				require.LessOrEqual(t, time.Since(began), beatInterval(testTimeout))
				_, ok := h.attachTask([]byte("attempt 2"))
				require.False(t, ok, "an ending step takes no other attempt")
			})
		})
	}
}

// A step whose attempt timed out has no effects until it gets the next attempt.
func TestHeart_waitsForTheNextAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		h, ctx := patient(t.Context(), nil)
		h.beat = func(_ context.Context, token []byte, _ details) error {
			if tokens = append(tokens, string(token)); string(token) == "attempt 1" {
				return serviceerror.NewNotFound("no such activity")
			}
			return nil
		}
		first := h.task
		go h.sendBeats(ctx)
		synctest.Wait()
		<-first.over
		tool, stop := h.fenceContext(ctx)
		defer stop()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(tool), errFenced)
		require.False(t, h.isLate(time.Now()), "nobody waits for its heartbeats")

		time.AfterFunc(time.Minute, func() { h.attachTask([]byte("attempt 2")) })
		began := time.Now()
		require.NoError(t, h.awaitFence(ctx))
		require.Equal(t, time.Minute, time.Since(began))
		time.Sleep(testTimeout)
		require.NoError(t, h.awaitFence(ctx))
		h.loseTask(first) // its refusal was on its way
		require.NoError(t, h.awaitFence(ctx))
		require.Equal(t, "attempt 1", tokens[0])
		require.NotContains(t, tokens[1:], "attempt 1")
		h.endStep(nil)
	})
}

func TestHeart_endsWithoutANextAttempt(t *testing.T) {
	t.Parallel()
	gone := func(context.Context, details) error { return serviceerror.NewNotFound("no such activity") }
	t.Run("none comes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h, ctx := patient(t.Context(), gone)
			go h.sendBeats(ctx)
			time.Sleep(firstBeat)
			synctest.Wait()
			began := time.Now()
			require.ErrorIs(t, h.awaitFence(ctx), errFenced)
			require.Equal(t, adoptionTime, time.Since(began))
			require.NoError(t, ctx.Err())
			h.endStep(nil)
		})
	})
	t.Run("nobody wants its result", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h, ctx := patient(t.Context(), gone)
			h.pending = func(context.Context) (bool, error) { return false, nil }
			h.sendBeats(ctx)
			require.ErrorIs(t, context.Cause(ctx), errFenced, "a model call in flight ends, too")
		})
	})
	t.Run("the server is away", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h, ctx := patient(t.Context(), gone)
			h.pending = func(context.Context) (bool, error) { return false, errAway }
			go h.sendBeats(ctx)
			time.Sleep(time.Minute)
			require.NoError(t, ctx.Err())
			h.endStep(nil)
		})
	})
}

// Changed details are reported soon, together with those that follow at once, while the worker
// has heartbeats to spare, and otherwise with the next one that is due.
func TestHeart_reportsNewDetails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reported atomic.Int64
		var beats atomic.Int64
		h, ctx := patient(t.Context(), func(_ context.Context, d details) error {
			reported.Store(int64(d.Step))
			beats.Add(1)
			return nil
		})
		h.updateDetails(func(d *details) { d.Step = -1 })
		go h.sendBeats(ctx)
		time.Sleep(firstBeat)
		synctest.Wait()
		require.EqualValues(t, -1, reported.Load(), "the first one has what the step does first")
		for n := range 5 {
			h.updateDetails(func(d *details) { d.Step = n + 1 })
			time.Sleep(gathering / 5)
		}
		synctest.Wait()
		require.EqualValues(t, 5, reported.Load())
		require.EqualValues(t, 2, beats.Load(), "the first one and one for all changes")

		for range spareRate { // others use them up
			h.steps.reserveSpare(time.Hour)
		}
		before := beats.Load()
		for n := range 100 {
			h.updateDetails(func(d *details) { d.Step = n })
			synctest.Wait()
		}
		require.Equal(t, before, beats.Load())
		time.Sleep(beatInterval(testTimeout) + time.Second)
		require.EqualValues(t, 99, reported.Load())
		require.LessOrEqual(t, beats.Load(), before+2)

		// Due heartbeats of others wait: they come first.
		before = beats.Load()
		h.steps.countDue(1)
		h.updateDetails(func(d *details) { d.Step = 200 })
		time.Sleep(time.Second)
		require.Equal(t, before, beats.Load())
		h.steps.countDue(-1)
		h.endStep(nil)
		synctest.Wait()
	})
}

// An acknowledgement proves only that the server had the report when it was sent: after
// a suspension it may be read much later.
func TestHeart_acknowledgementCountsFromItsReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, ctx := patient(t.Context(), func(context.Context, details) error {
			time.Sleep(fenceAfter(testTimeout) + time.Second)
			return nil
		})
		require.NoError(t, h.reportDetails(ctx))
		fenced, lost, _ := h.isFenced()
		require.True(t, fenced)
		require.False(t, lost)
	})
}

func TestHeart_refusalIsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, ctx := patient(t.Context(), func(context.Context, details) error { return errAway })
		time.Sleep(fenceAfter(testTimeout))
		require.Error(t, h.reportDetails(ctx))
		time.Sleep(time.Second)
		fenced, _, _ := h.isFenced()
		require.True(t, fenced)
	})
}

// No new steps are taken while the heartbeats of a single one are late.
func TestSteps_lagging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := errAway
		h, ctx := patient(t.Context(), func(context.Context, details) error { return answer })
		leave := h.steps.registerHeart(h)
		require.False(t, h.steps.Lagging())
		time.Sleep(lagAfter(testTimeout) + time.Second)
		require.True(t, h.steps.Lagging())
		answer = nil
		require.NoError(t, h.reportDetails(ctx))
		require.True(t, h.steps.Lagging(), "a finding holds for a moment")
		time.Sleep(lagCheck)
		require.False(t, h.steps.Lagging())
		time.Sleep(testTimeout)
		require.True(t, h.steps.Lagging())
		leave()
		time.Sleep(lagCheck)
		require.False(t, h.steps.Lagging())
	})
}

// Heartbeats that wait for their turn are sent when another one ends.
func TestSteps_acquire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSteps()
		for range maxSending {
			require.NoError(t, s.acquireTurn(t.Context()))
		}
		require.False(t, s.isIdle())
		time.AfterFunc(time.Second, s.releaseTurn)
		require.NoError(t, s.acquireTurn(t.Context()))
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, s.acquireTurn(ended))
		s.releaseTurn()
		require.True(t, s.isIdle())
	})
}

func TestSteps_doing(t *testing.T) {
	t.Parallel()
	steps := NewSteps()
	var leave []func()
	for _, kind := range []coordination.DoingKind{coordination.CallsModel, coordination.CallsModel, coordination.Queued, ""} {
		h := newHeart(steps, testTimeout, details{})
		if kind != "" {
			h.beginCall(kind, "a call")
		}
		leave = append(leave, steps.registerHeart(h))
	}
	require.Equal(t, map[coordination.DoingKind]int{coordination.CallsModel: 2, coordination.Queued: 1, "": 1}, steps.Doing())
	for _, f := range leave {
		f()
	}
	require.Empty(t, steps.Doing())
}

// A call of a model that was cut off is made again.
func TestRepays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before any // heartbeat details of the attempt before; nil for none
		want   bool
	}{
		"first attempt":      {nil, false},
		"in a model call":    {details{Doing: &coordination.Doing{Kind: coordination.CallsModel}}, true},
		"in a tool":          {details{Doing: &coordination.Doing{Kind: coordination.RunsTool}}, false},
		"between calls":      {details{}, false},
		"of another version": {"text", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			if tc.before != nil {
				env.SetHeartbeatDetails(tc.before)
			}
			activity := func(ctx context.Context) (bool, error) { return MayRepeatPaidCall(ctx), nil }
			env.RegisterActivity(activity)
			value, err := env.ExecuteActivity(activity)
			require.NoError(t, err)
			var got bool
			require.NoError(t, value.Get(&got))
			require.Equal(t, tc.want, got)
		})
	}
}
