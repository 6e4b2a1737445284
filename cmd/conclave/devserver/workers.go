package devserver

import (
	"context"
	"errors"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/tasktoken"

	"conclave/cmd/conclave/localstack"
	"conclave/worker/roster"
)

const (
	// watchInterval is the interval between checks for dead workers.
	watchInterval = 500 * time.Millisecond

	// lateTasks is how long after a worker's death the server may still assign tasks to
	// it.
	lateTasks = 5 * time.Second
)

// reapWorkers reports the activities of dead workers as failed, once now and then
// periodically.
func (s *servers) reapWorkers() error {
	c, err := s.lazyClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		defer c.Close()
		(&reaper{client: c, dir: localstack.Workers(s.stack.DataDir), reaped: map[string]time.Time{}}).run(ctx)
	})
	s.stops = append(s.stops, func(context.Context) { cancel(); watching.Wait() })
	return nil
}

// reaper reports the activities of dead workers.
type reaper struct {
	client client.Client
	dir    string
	reaped map[string]time.Time // time when a worker was reaped, by its identity
}

func (r *reaper) run(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	report := roster.Report(ctx, r.client)
	for {
		// The next tick repeats a failed report.
		_ = roster.Reap(r.dir, "", func(d roster.Dead) error {
			r.reaped[d.Identity] = time.Now()
			return report(d)
		})
		for identity, at := range r.reaped {
			if time.Since(at) > lateTasks {
				delete(r.reaped, identity)
			}
		}
		if len(r.reaped) > 0 {
			_ = r.failUnnoted(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// failUnnoted fails tasks assigned to workers that died before they could record
// them, and the workers' workflow tasks.
func (r *reaper) failUnnoted(ctx context.Context) error {
	var next []byte
	for {
		page, err := r.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus = 'Running'", NextPageToken: next})
		if err != nil {
			return err
		}
		for _, run := range page.GetExecutions() {
			if err := r.failUnnotedOf(ctx, run.GetExecution().GetWorkflowId(), run.GetExecution().GetRunId()); err != nil {
				return err
			}
		}
		if next = page.GetNextPageToken(); len(next) == 0 {
			return nil
		}
	}
}

func (r *reaper) failUnnotedOf(ctx context.Context, workflowID, runID string) error {
	run, err := r.client.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return err
	}
	if task := run.GetPendingWorkflowTask(); task.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED && task.GetAttempt() == 1 {
		if err := r.failWorkflowTask(ctx, workflowID, runID); err != nil {
			return err
		}
	}
	for _, a := range run.GetPendingActivities() {
		if _, dead := r.reaped[a.GetLastWorkerIdentity()]; !dead || a.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		token, err := r.token(ctx, workflowID, runID, a)
		if err != nil {
			return err
		}
		task := roster.Task{Token: token, Namespace: namespaceName, WorkflowID: workflowID, RunID: runID, ActivityID: a.GetActivityId()}
		if err := roster.Report(ctx, r.client)(roster.Dead{Tasks: []roster.Task{task}}); err != nil {
			return err
		}
	}
	return nil
}

// failWorkflowTask fails the workflow task in progress if a dead worker holds it.
// Otherwise the server would wait ten seconds.
func (r *reaper) failWorkflowTask(ctx context.Context, workflowID, runID string) error {
	var last *historypb.HistoryEvent
	err := r.history(ctx, workflowID, runID, func(event *historypb.HistoryEvent) { last = event })
	if err != nil {
		return err
	}
	started := last.GetWorkflowTaskStartedEventAttributes()
	if _, dead := r.reaped[started.GetIdentity()]; !dead {
		return nil
	}
	namespace, err := r.namespaceID(ctx)
	if err != nil {
		return err
	}
	token, err := tasktoken.NewSerializer().Serialize(tasktoken.NewWorkflowTaskToken(
		namespace, workflowID, runID, started.GetScheduledEventId(), last.GetEventId(), nil, 1, nil, common.EmptyVersion,
	))
	if err != nil {
		return err
	}
	_, err = r.client.WorkflowService().RespondWorkflowTaskFailed(ctx, &workflowservice.RespondWorkflowTaskFailedRequest{
		TaskToken: token, Namespace: namespaceName, Cause: enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_STICKY_TASK_QUEUE,
	})
	if _, over := errors.AsType[*serviceerror.NotFound](err); over {
		return nil
	}
	return err
}

func (r *reaper) history(ctx context.Context, workflowID, runID string, each func(*historypb.HistoryEvent)) error {
	events := r.client.GetWorkflowHistory(ctx, workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return err
		}
		each(event)
	}
	return nil
}

func (r *reaper) namespaceID(ctx context.Context) (string, error) {
	namespace, err := r.client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespaceName})
	return namespace.GetNamespaceInfo().GetId(), err
}

// token returns the task token of one attempt of an activity. The server refuses it for
// any other attempt.
func (r *reaper) token(ctx context.Context, workflowID, runID string, a *workflowpb.PendingActivityInfo) ([]byte, error) {
	namespace, err := r.namespaceID(ctx)
	if err != nil {
		return nil, err
	}
	var scheduled int64
	err = r.history(ctx, workflowID, runID, func(event *historypb.HistoryEvent) {
		if event.GetActivityTaskScheduledEventAttributes().GetActivityId() == a.GetActivityId() {
			scheduled = event.GetEventId()
		}
	})
	if err != nil {
		return nil, err
	}
	return tasktoken.NewSerializer().Serialize(tasktoken.NewActivityTaskToken(
		namespace, workflowID, runID, scheduled, a.GetActivityId(), a.GetActivityType().GetName(), a.GetAttempt(),
		nil, common.EmptyVersion, common.EmptyVersion, nil, 0,
	))
}
