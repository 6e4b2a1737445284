package attempt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/llm"
)

// The reason for the end of a context tells whether the step goes on later.
func TestEndedByServer(t *testing.T) {
	t.Parallel()
	own := errors.New("the heart has stopped")
	for name, tc := range map[string]struct {
		cause               error
		ended, cancel, hold bool
	}{
		"cancelled":              {context.Canceled, true, true, false},
		"cancelled by heartbeat": {temporal.NewCanceledError(), true, true, false},
		"paused":                 {activity.ErrActivityPaused, true, false, true},
		"reset":                  {activity.ErrActivityReset, true, false, true},
		"stopped by the worker":  {errStopped, false, false, false},
		"fenced":                 {errFenced, false, false, false},
		"another reason":         {own, false, false, false},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		require.False(t, endedByServer(ctx, tc.cause), name)
		end(tc.cause)
		require.Equal(t, tc.ended, endedByServer(ctx, fmt.Errorf("call the model: %w", tc.cause)), name)
		require.False(t, endedByServer(ctx, io.ErrUnexpectedEOF), "%s: an error of another cause", name)
		require.Equal(t, tc.cancel, isCancel(tc.cause), name)
		require.Equal(t, tc.hold, isHold(tc.cause), name)
	}
}

// The delay that a model's server asks for is kept; other delays are spread, so that not all
// steps of a worker come back at once.
func TestApplicationError_delay(t *testing.T) {
	t.Parallel()
	delays := map[string]bool{}
	for range 50 {
		carried, ok := errors.AsType[*temporal.ApplicationError](applicationError(errFenced, classOf(errFenced)))
		require.True(t, ok)
		require.GreaterOrEqual(t, carried.NextRetryDelay(), fenceDelay)
		require.LessOrEqual(t, carried.NextRetryDelay(), 2*fenceDelay)
		require.Equal(t, temporal.ApplicationErrorCategoryBenign, carried.Category())
		delays[carried.NextRetryDelay().String()] = true
	}
	require.Greater(t, len(delays), 10)

	limited := &llm.Error{Kind: llm.RateLimited, RetryAfter: 7 * time.Second, Message: "slow down"}
	for range 10 {
		carried, ok := errors.AsType[*temporal.ApplicationError](applicationError(limited, classOf(limited)))
		require.True(t, ok)
		require.Equal(t, 7*time.Second, carried.NextRetryDelay())
		require.Contains(t, carried.Message(), "slow down")
	}
	bug, ok := errors.AsType[*temporal.ApplicationError](applicationError(errors.New("a bug"), classOf(errors.New("a bug"))))
	require.True(t, ok)
	require.Zero(t, bug.NextRetryDelay(), "the retry policy decides")
	require.NotEqual(t, temporal.ApplicationErrorCategoryBenign, bug.Category())
	require.Equal(t, "the message", textOf(fmt.Errorf("run: %w", temporal.NewApplicationError("the message", "Kind"))))
	require.Equal(t, "3 attempts died without progress", textOf(&noProgressError{attempts: 3}))
}
