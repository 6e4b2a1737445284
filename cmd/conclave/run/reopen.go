package runs

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/workflows"
)

// deliverUpdate sends an update to an open run. A retry of a run that ended without a decision, and a message
// to one that is undecided, start a new run. It handles a run that ends or is reopened meanwhile.
func deliverUpdate(ctx context.Context, conn *cli.Connection, run Run, u Update) error {
	if u.Agent != "" && run.Kind.Alone != "" {
		return cli.Exitf(cli.ExitUsage, "%s %s: %s; leave out --agent", u.Action, run, run.Kind.Alone)
	}
	if u.Branch != "" && run.Kind.Name != record.Pipelines.Name {
		return cli.Exitf(cli.ExitUsage, "%s %s: only runs of pipelines have branches; leave out --branch", u.Action, run)
	}
	if u.Branch != "" && !run.Running() {
		return cli.Exitf(cli.ExitUsage, "%s %s: it has ended, and goes on with all its branches; leave out --branch", u.Action, run)
	}
	if !run.goesOnWith(u) {
		err := applyUpdate(ctx, conn, run, u)
		if err == nil || !run.Running() || u.Name != workflows.RetrySignal && u.Name != workflows.SaySignal {
			return err
		}
		awaitEnd(ctx, conn, run)
		ended, lookErr := describeRun(ctx, conn, run.Workflow, run.Kind)
		if lookErr != nil || !ended.goesOnWith(u) {
			return err
		}
		run = ended
	}
	return reopenRun(ctx, conn, run, u)
}

// goesOnWith reports whether the update continues the run, which has ended.
func (r Run) goesOnWith(u Update) bool {
	return !r.Running() && (u.Name == workflows.RetrySignal || u.Name == workflows.SaySignal && r.isUndecided())
}

// awaitEnd waits for the end of a run that has decided but not yet written its last record.
func awaitEnd(ctx context.Context, conn *cli.Connection, run Run) {
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	var state struct {
		Status string `json:"status"`
	}
	if Query(ctx, conn, run.Workflow, workflows.StateQuery, &state) == nil && state.Status != "" && state.Status != workflows.Running {
		_ = conn.Client.GetWorkflow(ctx, run.Workflow, run.execution).Get(ctx, nil)
	}
}

func reopenRun(ctx context.Context, conn *cli.Connection, run Run, u Update) error {
	if run.Kind.Actions == nil {
		return alreadyEnded(conn, run, u)
	}
	asked, _ := u.Payload.(workflows.Request)
	input, err := run.Kind.ReopenInput(ctx, conn, run, asked)
	if err != nil {
		return err
	}
	o := Order{
		Kind: run.Kind, ID: run.ID, Slug: run.Slug, Query: run.Query, Input: input, Offline: run.Offline, Continues: run.Continues,
		Memo: map[string]any{}, Again: run.Workflow, Queue: run.queueName(conn),
	}
	if run.Recorded {
		o.Memo[workflows.MemoRecorded] = true
	}
	for _, name := range []string{workflows.MemoCaller, workflows.MemoRequest} {
		if value := Memo(run.Memo, name, ""); value != "" {
			o.Memo[name] = value
		}
	}
	switch err := Execute(ctx, conn, o); {
	case IsTaken(err):
		return applyUpdate(ctx, conn, run.asReopened(), u)
	case err != nil && ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted while reopening %s; `%s` says whether it runs", run, conn.CommandLine("status", run.Name()))
	case err != nil:
		return fmt.Errorf("reopen %s: %w", run, err)
	case conn.Scripted():
		return conn.PrintJSON(accepted{SessionID: run.ID, Accepted: true})
	}
	conn.Infof("%s had ended (%s) and continues with everything that was paid for; `%s` follows it", run, run.Status, conn.CommandLine("watch", run.Name()))
	conn.WarnIdle(ctx, o.Queue)
	return nil
}

// CannotReopen returns the error of a run that cannot continue as asked. If err is not retryable,
// its message is the reason. Nothing was started.
func CannotReopen(conn *cli.Connection, run Run, asked workflows.Request, err error) error {
	verb := workflows.RetrySignal
	if asked.Text != "" {
		verb = workflows.SaySignal
	}
	if final, ok := errors.AsType[*temporal.ApplicationError](err); ok && final.NonRetryable() {
		return cli.Exitf(cli.ExitUsage, "%s %s: %s; nothing was started, `%s` prints what came out", verb, run, final.Message(), conn.CommandLine("result", run.Name()))
	}
	return fmt.Errorf("%s %s: %w; nothing was started", verb, run, err)
}

// SuggestRetry prints how a run that ended without a result can continue.
func SuggestRetry(conn *cli.Connection, run Run, status string) {
	if conn.Scripted() {
		return
	}
	line := "`" + conn.CommandLine("retry", run.Name()) + "` continues with everything that was paid for"
	if status != workflows.Cancelled {
		line = "once the cause is mended, " + line
	}
	conn.Infof("%s", line)
}

// isUndecided reports whether the run has ended, and a message continues it.
func (r Run) isUndecided() bool { return !r.Running() && r.Status == r.Kind.Undecided }

func (r Run) asReopened() Run {
	r.Closed, r.Status = Run{}.Closed, workflows.Running
	return r
}
