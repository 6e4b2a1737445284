package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
)

// reservation is a request for a slot.
type reservation struct {
	sdkworker.SlotReservationInfo
	warnings atomic.Int64
}

func (r *reservation) Logger() log.Logger { return warner{count: &r.warnings} }

// warner counts warnings.
type warner struct {
	log.Logger
	count *atomic.Int64
}

func (w warner) Warn(string, ...any) { w.count.Add(1) }

// A worker whose heartbeats are late starts no steps, and says so once.
func TestSlots_noneWhileHeartbeatsLag(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lagging atomic.Bool
		supplier := newTuner(2, lagging.Load).GetActivityTaskSlotSupplier()
		require.Equal(t, 2, supplier.MaxSlots())
		info := &reservation{}
		first, err := supplier.ReserveSlot(t.Context(), info)
		require.NoError(t, err)
		require.NotNil(t, first)

		lagging.Store(true)
		require.Nil(t, supplier.TryReserveSlot(info))
		time.AfterFunc(time.Minute, func() { lagging.Store(false) })
		began := time.Now()
		second, err := supplier.ReserveSlot(t.Context(), info)
		require.NoError(t, err)
		require.NotNil(t, second)
		require.InDelta(t, time.Minute, time.Since(began), float64(lagPoll))
		require.EqualValues(t, 1, info.warnings.Load())
		require.Nil(t, supplier.TryReserveSlot(info), "all slots are in use")

		// A slot that becomes free while heartbeats are late stays free.
		lagging.Store(true)
		time.AfterFunc(time.Second, func() { supplier.ReleaseSlot(nil) })
		time.AfterFunc(time.Minute, func() { lagging.Store(false) })
		began = time.Now()
		_, err = supplier.ReserveSlot(t.Context(), info)
		require.NoError(t, err)
		require.InDelta(t, time.Minute, time.Since(began), float64(lagPoll))

		supplier.ReleaseSlot(nil)
		lagging.Store(true)
		ending, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = supplier.ReserveSlot(ending, info)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		lagging.Store(false)
		require.NotNil(t, supplier.TryReserveSlot(info), "the slot was given back")
	})
}

// An activity is noted before it runs.
func TestNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := OpenRoster(dir, "", "")
	require.NoError(t, err)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&notes{roster: r}}})
	var noted []RosterTask
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		r.Close() // as if the process died
		require.NoError(t, ReapRosters(dir, "", func(d DeadWorker) error {
			noted = d.Tasks
			return nil
		}))
		info := activity.GetInfo(ctx)
		require.Equal(t, []RosterTask{{
			Token: info.TaskToken, Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID, ActivityID: info.ActivityID,
		}}, noted)
		return nil
	}, activity.RegisterOptions{Name: "work"})
	_, err = env.ExecuteActivity("work")
	require.NoError(t, err)
	require.Len(t, noted, 1)
}
