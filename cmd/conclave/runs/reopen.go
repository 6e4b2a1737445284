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

// deliver sends an update to an open run. A retry of a run that ended without a decision, and a
// message to one that is undecided, start a new run. It handles a run that ends or is reopened
// meanwhile.
func deliver(ctx context.Context, conn *hall.Connection, run Run, u Update) error {
	if !run.goesOnWith(u) {
		err := apply(ctx, conn, run, u)
		if err == nil || !run.Running() || u.Name != drive.RetrySignal && u.Name != drive.SaySignal {
			return err
		}
		awaitEnd(ctx, conn, run)
		ended, lookErr := describe(ctx, conn, run.Workflow, run.Kind)
		if lookErr != nil || !ended.goesOnWith(u) {
			return err
		}
		run = ended
	}
	return reopen(ctx, conn, run, u)
}

// goesOnWith reports whether the update continues the run, which has ended.
func (r Run) goesOnWith(u Update) bool {
	return !r.Running() && (u.Name == drive.RetrySignal || u.Name == drive.SaySignal && r.undecided())
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
	asked, _ := u.Payload.(drive.Request)
	input, err := run.Kind.Reopen(ctx, conn, run, asked)
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

// CannotReopen returns the error of a run that cannot continue as asked. If err is not retryable,
// its message is the reason. Nothing was started.
func CannotReopen(conn *hall.Connection, run Run, asked drive.Request, err error) error {
	verb := drive.RetrySignal
	if asked.Text != "" {
		verb = drive.SaySignal
	}
	if final, ok := errors.AsType[*temporal.ApplicationError](err); ok && final.NonRetryable() {
		return hall.Exitf(hall.ExitUsage, "%s %s: %s; nothing was started, `%s` prints what came out", verb, run, final.Message(), conn.CommandLine("result", run.Workflow))
	}
	return fmt.Errorf("%s %s: %w; nothing was started", verb, run, err)
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

// undecided reports whether the run has ended, and a message continues it.
func (r Run) undecided() bool { return !r.Running() && r.Status == r.Kind.Undecided }

// open returns the run as reopened under the same workflow ID.
func (r Run) open() Run {
	r.Closed, r.Status = Run{}.Closed, drive.Running
	return r
}
