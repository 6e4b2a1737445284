package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/cmd/conclave/local"
	"conclave/worker"
)

// mortal is a worker whose activities die with it in their first attempt. They leave heartbeat
// details and the record of their task.
type mortal struct {
	dir    string
	client client.Client
}

// work waits for its worker's death; its second attempt returns the details of the first.
func (m mortal) work(ctx context.Context) (progress int, err error) {
	if activity.HasHeartbeatDetails(ctx) {
		return progress, activity.GetHeartbeatDetails(ctx, &progress)
	}
	info := activity.GetInfo(ctx)
	activity.RecordHeartbeat(ctx, 7)
	if info.ActivityID == "unnoted" {
		file := filepath.Join(local.Workers(m.dir), "dead.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return 0, err
		}
		return 0, cmp.Or(os.WriteFile(file, []byte(`{"server":"","identity":"`+mortalIdentity+`"}`+"\n"), 0o600), activity.ErrResultPending)
	}
	noted, err := worker.OpenRoster(local.Workers(m.dir), "", "")
	if err != nil {
		return 0, err
	}
	if err := noted.Begin(worker.RosterTask{
		Token: info.TaskToken, Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID, ActivityID: info.ActivityID,
	}); err != nil {
		return 0, err
	}
	// The lock is free while the task runs, as after the death of a process.
	if info.ActivityID == "cancelled" {
		if err := m.client.SignalWorkflow(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, "started", nil); err != nil {
			return 0, err
		}
	}
	go func() {
		defer noted.Close()
		for info.ActivityID == "cancelled" && m.client.RecordActivityHeartbeat(context.WithoutCancel(ctx), info.TaskToken, 7) == nil {
			runtime.Gosched() // until the cancellation is known
		}
	}()
	return 0, activity.ErrResultPending
}

// mortalIdentity is the name of a worker that died before it recorded its task.
const mortalIdentity = "1@here@mortal"

func patientActivity(ctx workflow.Context, id string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: id, StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Hour, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Hour},
	})
}

func outlive(ctx workflow.Context) (progress int, err error) {
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	return progress, workflow.ExecuteActivity(patientActivity(ctx, id), "work").Get(ctx, &progress)
}

// cancelLost returns the details of the failure of an activity that is cancelled when its
// worker dies.
func cancelLost(ctx workflow.Context) (progress int, err error) {
	activityCtx, cancel := workflow.WithCancel(patientActivity(ctx, "cancelled"))
	future := workflow.ExecuteActivity(activityCtx, "work")
	workflow.GetSignalChannel(ctx, "started").Receive(ctx, nil) // a task that waits is cancelled at once
	cancel()
	err = future.Get(ctx, nil)
	lost, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok || lost.Type() != activities.WorkerLost {
		return 0, errors.Join(err, fmt.Errorf("the activity did not fail with %s", activities.WorkerLost))
	}
	return progress, lost.Details(&progress)
}

// A worker that dies is reaped within seconds, long before its heartbeats are missed. Its
// activities resume with their heartbeat details, without another event.
func TestStack_reapsDeadWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lease := join(t, dir, local.Options{})
	c, err := client.Dial(client.Options{HostPort: lease.Stack.TemporalAddress, Identity: mortalIdentity})
	require.NoError(t, err)
	defer c.Close()
	w := sdkworker.New(c, "mortals", sdkworker.Options{MaxHeartbeatThrottleInterval: time.Millisecond})
	w.RegisterActivityWithOptions(mortal{dir: dir, client: c}.work, activity.RegisterOptions{Name: "work"})
	w.RegisterWorkflow(outlive)
	w.RegisterWorkflow(cancelLost)
	require.NoError(t, w.Start())
	defer w.Stop()

	// The last run makes the stack fail all tasks of the worker.
	for _, name := range []string{"alive", "cancelled", "unnoted"} {
		flow := outlive
		if name == "cancelled" {
			flow = cancelLost
		}
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: name, TaskQueue: "mortals"}, flow)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var progress int
		require.NoError(t, run.Get(ctx, &progress), name)
		require.Equal(t, 7, progress, name)
	}

	var kinds []enumspb.EventType
	for _, event := range events(t, c, "alive") {
		if started := event.GetActivityTaskStartedEventAttributes(); started != nil {
			require.EqualValues(t, 2, started.Attempt)
			require.Equal(t, activities.WorkerLost, started.LastFailure.GetApplicationFailureInfo().GetType())
		}
		if event.EventType >= enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED && event.EventType <= enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED {
			kinds = append(kinds, event.EventType)
		}
	}
	require.Equal(t, []enumspb.EventType{
		enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
	}, kinds)
	require.Empty(t, names(t, local.Workers(dir)))
}

func events(t *testing.T, c client.Client, workflowID string) (all []*historypb.HistoryEvent) {
	t.Helper()
	history := c.GetWorkflowHistory(t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		all = append(all, event)
	}
	return all
}
