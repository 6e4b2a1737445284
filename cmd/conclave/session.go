package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

// known is what Temporal knows of a session, or of the run of a pipeline, without
// asking a worker.
type known struct {
	kind     string // the workflow type; empty for that of a session
	id       string // of the session
	workflow string
	query    string // cut
	status   string // the contract's, or running
	offline  bool
	started  time.Time
	closed   time.Time // zero while it runs
	delays   []progress.Delay
}

func (k known) running() bool { return k.closed.IsZero() }

// noun is what it is, in messages.
func (k known) noun() string {
	if k.kind == pipelineflow.Type {
		return "pipeline run"
	}
	return "session"
}

// lister is the command that lists its like.
func (k known) lister() string {
	if k.kind == pipelineflow.Type {
		return "pipeline list"
	}
	return "list"
}

// elapsed is how long the session took, or has taken up to now.
func (k known) elapsed() time.Duration {
	if k.running() {
		return time.Since(k.started)
	}
	return k.closed.Sub(k.started)
}

// find looks a session up by its workflow ID, or by its own if that is another
// one: a session's input can name it.
func (c *cli) find(ctx context.Context, p *place, id string) (known, error) {
	k, err := describe(ctx, p, id)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		workflow, listErr := workflowOf(ctx, p, id)
		if listErr == nil && workflow != "" {
			if k, err = describe(ctx, p, workflow); err == nil {
				c.say("%s %s is the workflow %s", k.noun(), id, workflow)
			}
		}
	}
	var told *endError
	switch {
	case err == nil, errors.As(err, &told):
		return k, err
	case ctx.Err() != nil:
		return known{}, ctx.Err()
	default:
		return known{}, c.notFound(err, id, p)
	}
}

// workflowOf is the workflow of the newest session, else of the newest run of a
// pipeline, with an ID of its own; empty if there is none.
func workflowOf(ctx context.Context, p *place, id string) (string, error) {
	for _, kind := range []string{sessionflow.Type, pipelineflow.Type} {
		runs, err := listKind(ctx, p, kind)
		if err != nil {
			return "", err
		}
		for _, r := range runs {
			if r.SessionID == id {
				return r.workflow, nil
			}
		}
	}
	return "", nil
}

// describe asks Temporal for the session that is this workflow.
func describe(ctx context.Context, p *place, id string) (known, error) {
	asking, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	reply, err := p.client.DescribeWorkflowExecution(asking, id, "")
	if err != nil {
		return known{}, err
	}
	info := reply.GetWorkflowExecutionInfo()
	name := memoID(info.GetType().GetName())
	if name == "" {
		return known{}, end(exitUsage, "%s is a workflow of type %s, neither a session nor the run of a pipeline", id, info.GetType().GetName())
	}
	k := known{
		kind:     info.GetType().GetName(),
		workflow: id,
		id:       memo(info.GetMemo(), name, id),
		query:    memo(info.GetMemo(), drive.MemoQuery, ""),
		offline:  memo(info.GetMemo(), memoOffline, false),
		status:   statusOf(info.GetStatus(), info.GetMemo()),
		started:  info.GetStartTime().AsTime(),
		delays:   delaysOf(reply.GetPendingActivities(), time.Now()),
	}
	if info.GetCloseTime() != nil {
		k.closed = info.GetCloseTime().AsTime()
	}
	return k, nil
}

// memoID is the memo field with the ID of what a workflow of this type runs; empty
// for a type that is none of ours.
func memoID(kind string) string {
	switch kind {
	case sessionflow.Type:
		return sessionflow.MemoSession
	case pipelineflow.Type:
		return pipelineflow.MemoPipeline
	}
	return ""
}

// statusOf is a session's status: Temporal's word where it ended the session,
// else what the session itself put into its memo.
func statusOf(status enumspb.WorkflowExecutionStatus, m *commonpb.Memo) string {
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return statusCancelled
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return statusFailed
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return memo(m, drive.MemoStatus, "completed")
	default:
		return drive.Running
	}
}

// memo reads one memo field, or the default if it is absent or of another type.
func memo[T any](m *commonpb.Memo, name string, otherwise T) T {
	var value T
	payload, ok := m.GetFields()[name]
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return otherwise
	}
	return value
}

// await returns how the session ended, once it has.
func await(ctx context.Context, p *place, id string) (sessionflow.Result, error) {
	var r sessionflow.Result
	err := p.client.GetWorkflow(ctx, id, "").Get(ctx, &r)
	var ended *temporal.WorkflowExecutionError
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return r, ctx.Err()
	case !errors.As(err, &ended):
		return r, fmt.Errorf("wait for session %s: %w", id, err)
	}
	return unanswered(id, ended), nil
}

// unanswered is the result of a session that Temporal ended.
func unanswered(id string, err error) sessionflow.Result {
	r := sessionflow.Result{SessionID: id, Status: statusFailed, Votes: map[string]int{}}
	var (
		cancelled   *temporal.CanceledError
		terminated  *temporal.TerminatedError
		timedOut    *temporal.TimeoutError
		application *temporal.ApplicationError
	)
	switch {
	case errors.As(err, &cancelled):
		r.Status = statusCancelled
	case errors.As(err, &terminated):
		r.Error = &artifact.Error{Type: "Terminated", Message: "the workflow was terminated"}
	case errors.As(err, &application):
		r.Error = &artifact.Error{Type: application.Type(), Message: application.Message()}
	case errors.As(err, &timedOut):
		r.Error = &artifact.Error{Type: "WorkflowTimeout", Message: "the workflow's own timeout, set by whoever started it, ran out"}
	default:
		r.Error = &artifact.Error{Type: "WorkflowFailed", Message: err.Error()}
	}
	return r
}

// resultCode is the exit code for a result. An input that was refused is a
// usage error, although the refusal came from a worker.
func resultCode(r sessionflow.Result) int {
	if r.Error != nil {
		switch r.Error.Type {
		case drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken:
			return exitUsage
		}
	}
	return statusCode(r.Status)
}

// workersPoll reports whether somebody has polled a task queue lately.
func workersPoll(ctx context.Context, p *place, queue string, kind enumspb.TaskQueueType) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	reply, err := p.client.DescribeTaskQueue(asking, queue, kind)
	if err != nil {
		return false, err
	}
	return len(reply.GetPollers()) > 0, nil
}
