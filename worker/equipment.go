package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/overlay"
	"conclave/engine/step"
	"conclave/worker/cluster"
	"conclave/workflows"
)

// equipment implements activities.Equipment.
type equipment struct {
	Models
	*Tools
}

func (e equipment) OpenTools(ctx context.Context, agent config.Agent, workspace string, s activities.Sharing) (step.Tools, error) {
	opened, err := e.Open(ctx, agent, workspace, s)
	if err != nil {
		return nil, err
	}
	return e.traces.Tools(opened), nil
}

func (e equipment) Overlays(ctx context.Context, agent config.Agent) *overlay.Mounts {
	if e.overlays == nil {
		return nil
	}
	return e.overlays.mountsFor(ctx, agent)
}

func (e equipment) SharedDirs(run string) []string { return e.shared.Dirs(run) }

func (e equipment) EndShared(run string) {
	e.shared.End(run)
	e.caches.endRun(run)
}

// temporalServer implements activities.Server.
type temporalServer struct {
	client     client.Client
	attributes *attributes
}

func (s temporalServer) Heartbeat(ctx context.Context, taskToken []byte, details ...any) error {
	return s.client.RecordActivityHeartbeat(ctx, taskToken, details...)
}

func (s temporalServer) Pending(ctx context.Context, workflowID, runID, activityID string) (bool, error) {
	run, err := s.client.DescribeWorkflowExecution(ctx, workflowID, runID)
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

// Bell needs no worker that answers a query.
func (s temporalServer) Bell(ctx context.Context, workflowID, runID string) (coordination.Ring, error) {
	var bell coordination.Ring
	described, err := s.client.DescribeWorkflowExecution(ctx, workflowID, runID)
	if err != nil {
		return bell, fmt.Errorf("read the memo of workflow %s, run %s: %w", workflowID, runID, err)
	}
	if payload, rung := described.GetWorkflowExecutionInfo().GetMemo().GetFields()[workflows.MemoDoorbell]; rung {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &bell); err != nil {
			return coordination.Ring{}, fmt.Errorf("read the doorbell of workflow %s: %w", workflowID, err)
		}
	}
	if activity.IsActivity(ctx) && slices.ContainsFunc(described.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
		return a.GetActivityId() == activity.GetInfo(ctx).ActivityID && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
	}) {
		return bell, temporal.NewCanceledError()
	}
	return bell, nil
}

func (s temporalServer) Signal(ctx context.Context, workflowID, runID, signal string, arg any) error {
	return s.client.SignalWorkflow(ctx, workflowID, runID, signal, arg)
}

// pollerAge is how long ago another worker may have polled a queue at most: a poll takes a minute.
const pollerAge = 70 * time.Second

// Alone returns false if the server does not reply, since another worker may poll.
func (s temporalServer) Alone(ctx context.Context) bool {
	queue, err := s.client.DescribeTaskQueue(ctx, activity.GetInfo(ctx).TaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	return err == nil && !slices.ContainsFunc(queue.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
		return p.GetIdentity() != cluster.WorkerIdentity() && time.Since(p.GetLastAccessTime().AsTime()) < pollerAge
	})
}

func (s temporalServer) Attributes(ctx context.Context) []string {
	return s.attributes.registeredNames(ctx)
}

const (
	// attributesAge is how long the search attributes of a namespace are cached.
	attributesAge = time.Minute

	// attributesTimeout bounds the request to the server. A run starts without search attributes
	// rather than late.
	attributesTimeout = 3 * time.Second
)

// attributes caches which of conclave's search attributes exist in each namespace.
type attributes struct {
	client client.Client
	log    *slog.Logger

	mu    sync.Mutex
	known map[string]registered // registered attributes by namespace
}

// registered is the result of one request to the server.
type registered struct {
	names []string
	at    time.Time
}

// registeredNames returns the search attributes that exist in the namespace of ctx's activity. It
// returns none if the server does not list them. It logs a warning about missing ones once.
func (a *attributes) registeredNames(ctx context.Context) []string {
	namespace := activity.GetInfo(ctx).Namespace
	a.mu.Lock()
	defer a.mu.Unlock()
	known, asked := a.known[namespace]
	if asked && time.Since(known.at) < attributesAge {
		return known.names
	}
	asking, cancel := context.WithTimeout(ctx, attributesTimeout)
	defer cancel()
	listed, err := a.client.OperatorService().ListSearchAttributes(asking, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	names := []string{}
	for name, kind := range workflows.Attributes() {
		if have, ok := listed.GetCustomAttributes()[name]; ok && have == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case asked:
	case err != nil:
		a.log.Warn("runs are not indexed: the server does not list its search attributes", "namespace", namespace, "error", err)
	case len(names) < len(workflows.Attributes()):
		a.log.Warn("runs are not indexed by all search attributes; register the missing ones: "+createCommand(namespace, names), "namespace", namespace)
	}
	a.known[namespace] = registered{names: names, at: time.Now()}
	return names
}

// createCommand returns the command that registers the missing search attributes. The temporal CLI
// pairs names and types by their order.
func createCommand(namespace string, have []string) string {
	command := "temporal operator search-attribute create --namespace " + namespace
	all := workflows.Attributes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(have, name) {
			command += " --name " + name + " --type " + all[name].String()
		}
	}
	return command
}

// localTools are the tools of an agent in a step on this machine.
type localTools struct {
	*Tools
	agent config.Agent
}

func (t localTools) OpenTools(ctx context.Context, workspace string) (step.Tools, error) {
	return t.Open(ctx, t.agent, workspace, activities.Sharing{})
}

func (localTools) Overlays(context.Context) *overlay.Mounts { return nil }
