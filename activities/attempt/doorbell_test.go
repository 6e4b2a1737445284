package attempt

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
)

// asActivity calls do with an activity's context, without its timers, which do not
// belong to the test's synctest bubble.
func asActivity(t *testing.T, do func(ctx context.Context)) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		do(context.WithoutCancel(ctx))
		return nil
	}, activity.RegisterOptions{Name: "do"})
	_, err := env.ExecuteActivity("do")
	require.NoError(t, err)
}

// Before an action counts, the step reads the doorbell again; no answer is cached.
func TestDoorbell_isReadAtEverySafePoint(t *testing.T) {
	t.Parallel()
	asActivity(t, func(ctx context.Context) {
		reads := 0
		d := &doorbell{workflow: workflow.Execution{ID: "w", RunID: "r"}, read: func(_ context.Context, id, run string) (coordination.Ring, error) {
			require.Equal(t, "w", id)
			require.Equal(t, "r", run, "a reset's run has another bell")
			reads++
			return coordination.Ring{Epoch: reads, Directive: coordination.Pausing}, nil
		}}
		for n := range 3 {
			bell, err := d.readRing(ctx)
			require.NoError(t, err)
			require.Equal(t, n+1, bell.Epoch)
		}
		require.True(t, (&Attempt{Look: d.readRing}).isPausing(ctx))
		require.Equal(t, 4, reads)
	})
}

// A doorbell that cannot be read means that nothing is new.
func TestDoorbell_keepsTheLastAnswer(t *testing.T) {
	t.Parallel()
	asActivity(t, func(ctx context.Context) {
		synctest.Test(t, func(t *testing.T) {
			answer := func(context.Context) (coordination.Ring, error) { return coordination.Ring{Epoch: 7}, nil }
			d := &doorbell{read: func(ctx context.Context, _, _ string) (coordination.Ring, error) { return answer(ctx) }}
			look := func() (int, time.Duration) {
				began := time.Now()
				bell, err := d.readRing(ctx)
				require.NoError(t, err)
				return bell.Epoch, time.Since(began)
			}
			epoch, _ := look()
			require.Equal(t, 7, epoch)

			answer = func(context.Context) (coordination.Ring, error) { return coordination.Ring{}, errors.New("refused") }
			epoch, _ = look()
			require.Equal(t, 7, epoch, "the last answer stays")

			answer = func(ctx context.Context) (coordination.Ring, error) {
				<-ctx.Done()
				return coordination.Ring{}, ctx.Err()
			}
			epoch, took := look()
			require.Equal(t, 7, epoch)
			require.Equal(t, bellTimeout, took)
		})
	})
}
