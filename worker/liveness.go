package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"

	"conclave/worker/cluster"
	"conclave/worker/roster"
)

// openRoster records this process's running activities until forget is called. On a cluster it also
// watches the other processes that use the same directory; the embedded stack does that itself.
// Without a roster, the death of this process is only detected by missing heartbeats.
func (c Config) openRoster() (noted interceptor.WorkerInterceptor, forget func(), err error) {
	if c.Roster == "" {
		return &notes{}, func() {}, nil
	}
	r, err := roster.Open(c.Roster, c.Server, cluster.WorkerIdentity())
	if err != nil {
		return nil, nil, err
	}
	if c.Server == "" {
		return &notes{roster: r}, r.Close, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { roster.Watch(ctx, c.Roster, c.Server, c.Client) })
	return &notes{roster: r}, func() { cancel(); watching.Wait(); r.Close() }, nil
}

// notes intercepts activities to record those that are running.
type notes struct {
	interceptor.WorkerInterceptorBase
	roster *roster.Roster
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (n *notes) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	noted := &notedActivity{roster: n.roster}
	noted.Next = next
	return noted
}

type notedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	roster *roster.Roster
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *notedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	err := a.roster.Begin(roster.Task{
		Token: info.TaskToken, Namespace: info.Namespace, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID, ActivityID: info.ActivityID,
	})
	if err != nil {
		activity.GetLogger(ctx).Warn("the death of this worker would be noticed late", "error", err)
	}
	defer a.roster.End(info.TaskToken)
	return a.Next.ExecuteActivity(ctx, in)
}

// lagPoll is the interval at which a worker with late heartbeats checks them again.
const lagPoll = 500 * time.Millisecond

// slots limits the steps that a worker runs concurrently. It grants no new ones while the
// heartbeats of running steps are late.
type slots struct {
	sdkworker.SlotSupplier
	lagging func() bool
}

// newTuner returns a tuner with slots for a worker that only runs steps.
func newTuner(steps int, lagging func() bool) sdkworker.WorkerTuner {
	const unused = 1 // slots for kinds of tasks that this worker does not run
	fixed := func(n int) sdkworker.SlotSupplier {
		supplier, _ := sdkworker.NewFixedSizeSlotSupplier(n) // n is positive
		return supplier
	}
	tuner, _ := sdkworker.NewCompositeTuner(sdkworker.CompositeTunerOptions{
		WorkflowSlotSupplier: fixed(unused), LocalActivitySlotSupplier: fixed(unused),
		NexusSlotSupplier: fixed(unused), SessionActivitySlotSupplier: fixed(unused),
		ActivitySlotSupplier: slots{SlotSupplier: fixed(steps), lagging: lagging},
	})
	return tuner
}

// ReserveSlot implements worker.SlotSupplier. It first waits for a slot, then until no heartbeat is
// late, because heartbeats may become late while it waits for the slot.
func (s slots) ReserveSlot(ctx context.Context, info sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
	if err != nil {
		return nil, err
	}
	for warned := false; s.lagging(); warned = true {
		if !warned {
			info.Logger().Warn("heartbeats are late: no new steps until they are not; run fewer at a time, or more workers")
		}
		select {
		case <-ctx.Done():
			s.ReleaseSlot(nil) // a fixed number of slots needs no details
			return nil, ctx.Err()
		case <-time.After(lagPoll):
		}
	}
	return permit, nil
}

// TryReserveSlot implements worker.SlotSupplier.
func (s slots) TryReserveSlot(info sdkworker.SlotReservationInfo) *sdkworker.SlotPermit {
	if s.lagging() {
		return nil
	}
	return s.SlotSupplier.TryReserveSlot(info)
}

// pollerAge is how long ago another worker may have polled a queue at most: a poll takes a minute.
const pollerAge = 70 * time.Second

// alone returns a function that reports whether no other worker polls the task queue of an
// activity. If the server does not reply, it reports false, since another worker may.
func alone(c client.Client) func(ctx context.Context) bool {
	return func(ctx context.Context) bool {
		queue, err := c.DescribeTaskQueue(ctx, activity.GetInfo(ctx).TaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		return err == nil && !slices.ContainsFunc(queue.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
			return p.GetIdentity() != cluster.WorkerIdentity() && time.Since(p.GetLastAccessTime().AsTime()) < pollerAge
		})
	}
}

// pending returns a function that reports whether an activity is still open.
func pending(c client.Client) func(ctx context.Context, workflowID, runID, activityID string) (bool, error) {
	return func(ctx context.Context, workflowID, runID, activityID string) (bool, error) {
		run, err := c.DescribeWorkflowExecution(ctx, workflowID, runID)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		running := run.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		return running && slices.ContainsFunc(run.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
			return a.GetActivityId() == activityID
		}), nil
	}
}
