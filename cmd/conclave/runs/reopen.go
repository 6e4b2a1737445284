package runs

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/hall"
	"conclave/workflows/drive"
)

// retry sends the update to an open run. For a run that ended without a result it starts a new
// one. It handles a run that ends or is reopened meanwhile.
func retry(ctx context.Context, conn *hall.Connection, run Run, u Update) error {
	if run.Running() {
		err := apply(ctx, conn, run, u)
		if err != nil {
			awaitEnd(ctx, conn, run)
		}
		ended, lookErr := describe(ctx, conn, run.Workflow, run.Kind)
		if err == nil || lookErr != nil || ended.Running() {
			return err
		}
		run = ended
	}
	return reopen(ctx, conn, run, u)
}

// awaitEnd waits for the end of a run that has decided but not yet written its last record.
func awaitEnd(ctx context.Context, conn *hall.Connection, run Run) {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	var state struct {
		Status string `json:"status"`
	}
	if Query(ctx, conn, run.Workflow, drive.StateQuery, &state) == nil && state.Status != "" && state.Status != drive.Running {
		_ = conn.Client.GetWorkflow(ctx, run.Workflow, run.execution).Get(ctx, nil)
	}
}

// reopen starts a new run of the same workflow that continues the ended one.
func reopen(ctx context.Context, conn *hall.Connection, run Run, u Update) error {
	if run.Kind.Reopen == nil {
		return alreadyEnded(conn, run, u)
	}
	input, err := run.Kind.Reopen(ctx, conn, run, u.Agent)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	memo := map[string]any{run.Kind.MemoID: run.ID, drive.MemoQuery: run.Query}
	if run.Continues != "" {
		memo[drive.MemoContinues] = run.Continues
	}
	for _, name := range []string{drive.MemoCaller, drive.MemoRequest} {
		if value := Memo(run.Memo, name, ""); value != "" {
			memo[name] = value
		}
	}
	options := Options(conn, run.Workflow, run.Query, memo, run.Offline)
	options.TaskQueue = run.queue(conn)
	_, err = conn.Client.ExecuteWorkflow(starting, options, run.Kind.Type, input)
	if _, open := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); open {
		return apply(ctx, conn, run.open(), u)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted while reopening %s; `%s` says whether it runs", run, conn.CommandLine("status", run.Workflow))
	case err != nil:
		return fmt.Errorf("reopen %s: %w", run, err)
	case conn.Scripted():
		return conn.PrintJSON(accepted{SessionID: run.ID, Accepted: true})
	}
	follow := conn.CommandLine("watch", run.Workflow)
	if run.Kind.Follow != nil {
		follow = run.Kind.Follow(conn, run)
	}
	conn.Infof("%s had ended (%s) and continues with everything that was paid for; `%s` follows it", run, run.Status, follow)
	conn.WarnIdle(ctx, options.TaskQueue)
	return nil
}

// CannotReopen returns the error of a run that cannot continue. If err is not retryable, its
// message is the reason. Nothing was started.
func CannotReopen(conn *hall.Connection, run Run, err error) error {
	if final, ok := errors.AsType[*temporal.ApplicationError](err); ok && final.NonRetryable() {
		return hall.Exitf(hall.ExitUsage, "retry %s: %s; nothing was started, `%s` prints what came out", run, final.Message(), conn.CommandLine("result", run.Workflow))
	}
	return fmt.Errorf("retry %s: %w; nothing was started", run, err)
}

// SuggestRetry prints how a run that ended without a result can continue.
func SuggestRetry(conn *hall.Connection, run Run, status string) {
	if conn.Scripted() {
		return
	}
	line := "`" + conn.CommandLine("retry", run.Workflow) + "` continues with everything that was paid for"
	if status != drive.Cancelled {
		line = "once the cause is mended, " + line
	}
	conn.Infof("%s", line)
}

// open returns the run as reopened under the same workflow ID.
func (r Run) open() Run {
	r.Closed, r.Status = Run{}.Closed, drive.Running
	return r
}
