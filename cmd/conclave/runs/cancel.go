package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/hall"
	"conclave/workflows/drive"
)

func (c commands) cancel() *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a session",
		Long: `Ask a session to end without a decision, and wait until it has ended. Running steps
are ended; accepted answers and votes stay on record and can be pulled.

Without an address, cancel joins the local stack and records the end itself; it runs
no steps.`,
		Example: `  conclave cancel 20261121-153012-k3f9`,
	}, false, cancel)
}

func cancel(ctx context.Context, conn *hall.Connection, run Run) error {
	if !run.Running() && run.Status != drive.Cancelled {
		return hall.Exitf(hall.ExitUsage, "%s has ended already (%s); `%s` prints the result", run, run.Status, conn.CommandLine("result", run.Workflow))
	}
	if run.Running() {
		if err := Cancel(ctx, conn, run.Workflow); err != nil {
			return fmt.Errorf("cancel %s: %w", run, err)
		}
	}
	stop := NoteSilence(ctx, conn, run, func(why string, _ bool) {
		conn.Infof("%s was asked to end, and will end as soon as a worker answers: %s", run, why)
	})
	result, status, err := run.Kind.Await(ctx, conn, run)
	stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted: %s was asked to end but has not ended yet; `%s` shows its state", run, conn.CommandLine("status", run.Workflow))
	case err != nil:
		return hall.Exitf(hall.ExitInterrupted, "%s was asked to end, but waiting for its end failed: %w; `%s` shows its state", run, err, conn.CommandLine("status", run.Workflow))
	}
	if conn.Scripted() {
		return conn.PrintJSON(result)
	}
	conn.Infof("%s: %s", run, status)
	return nil
}

// Cancel requests the cancellation of a workflow. It succeeds if the workflow has ended.
func Cancel(ctx context.Context, conn *hall.Connection, workflow string) error {
	ctx, stop := context.WithTimeout(ctx, hall.ReachTimeout)
	defer stop()
	err := conn.Client.CancelWorkflow(ctx, workflow, "")
	if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
		return nil
	}
	return err
}
