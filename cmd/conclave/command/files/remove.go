package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/engine/files/artifact"
)

// errRunning is the refusal to delete an open run.
var errRunning = errors.New("it is running")

// removeRun deletes the files of a run and then its histories.
//
// It writes the mark before it checks the workflow. If somebody reopens the run at
// the same time, either this check finds it open, or its preparation finds the mark.
func removeRun(ctx context.Context, conn *cli.Connection, r *endedRun) error {
	mark := r.Layout.File(artifact.Deleted)
	if r.objects > 0 {
		if err := artifact.PutJSON(ctx, conn.Store, mark, map[string]time.Time{"deleted_at": artifact.Timestamp(time.Now())}); err != nil {
			return err
		}
	}
	open, err := isOpen(ctx, conn, r.workflow)
	if err == nil && open {
		err = errRunning
	}
	if err != nil {
		if r.objects > 0 && !r.marked {
			err = errors.Join(err, conn.Store.Delete(context.WithoutCancel(ctx), mark))
		}
		return err
	}
	if r.objects > 0 {
		if err := removeFiles(ctx, conn.Store, r, mark); err != nil {
			return err
		}
	}
	for _, id := range r.closed {
		if err := removeHistory(ctx, conn, r.workflow, id); err != nil {
			return err
		}
	}
	return nil
}

// isOpen describes the workflow, because Temporal's list of workflows may be out of date.
func isOpen(ctx context.Context, conn *cli.Connection, workflow string) (bool, error) {
	if workflow == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(ctx, workflow, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether the workflow %s runs: %w", workflow, err)
	}
	return reply.GetWorkflowExecutionInfo().GetCloseTime() == nil, nil
}

// removeFiles deletes the files of a run. It deletes the claim after the other
// files, so that nobody reuses the ID before they are deleted, and the mark last.
func removeFiles(ctx context.Context, store artifact.Store, r *endedRun, mark string) error {
	var keys []string
	for key, err := range store.List(ctx, r.Layout.Root()) {
		if err != nil {
			return err
		}
		if key != mark && key != r.claimKey {
			keys = append(keys, key)
		}
	}
	if err := store.DeleteAll(ctx, keys); err != nil {
		return err
	}
	if r.workflow != "" {
		if err := store.Delete(ctx, artifact.WorkflowKey(r.workflow)); err != nil {
			return err
		}
	}
	if r.claimKey != "" {
		if err := store.Delete(ctx, r.claimKey); err != nil {
			return err
		}
	}
	return store.Delete(ctx, mark)
}

// removeHistory deletes a closed execution. It names the execution's run ID, because
// without it Temporal would terminate an open execution.
func removeHistory(ctx context.Context, conn *cli.Connection, workflow, id string) error {
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	_, err := conn.Client.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace:         conn.Options.Namespace,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: id},
	})
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing || err == nil {
		return nil
	}
	return fmt.Errorf("delete the history of workflow %s, run %s: %w", workflow, id, err)
}

// goneTimeout is the maximum wait for histories, which the server deletes in the background.
const goneTimeout = 10 * time.Second

// awaitGone waits until Temporal lists none of the deleted executions. After the
// timeout the server continues on its own, even after a restart.
func awaitGone(ctx context.Context, conn *cli.Connection, removed []*endedRun) {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	for _, r := range removed {
		for len(r.closed) > 0 {
			found, err := runs.Executions(ctx, conn, fmt.Sprintf("WorkflowId = '%s'", r.workflow))
			if err != nil || len(found) == 0 {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}
