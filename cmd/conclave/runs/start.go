package runs

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// MaxMemoQuery is how many characters of the query the memo holds.
const MaxMemoQuery = 200

// Order is a run to start.
type Order struct {
	Kind    *Kind
	ID      string
	Query   string // for people
	Input   any    // of the workflow
	Offline bool
	IDFlag  string // the flag that sets the ID
}

// Start starts the workflow of a run.
func Start(ctx context.Context, conn *hall.Connection, o Order) error {
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	memo := map[string]any{o.Kind.MemoID: o.ID, drive.MemoQuery: text.HeadRunes(o.Query, MaxMemoQuery)}
	options := Options(conn, o.ID, o.Query, memo, o.Offline)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	_, err := conn.Client.ExecuteWorkflow(starting, options, o.Kind.Type, o.Input)
	_, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	switch {
	case taken:
		return hall.Exitf(hall.ExitUsage, "start %s %s: there is one with this ID %s already; choose another %s, or follow it with `%s`",
			o.Kind.Noun, o.ID, conn.Target, o.IDFlag, conn.CommandLine("watch", o.ID))
	case err != nil && ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted while starting %s %s; `%s` says whether it runs", o.Kind.Noun, o.ID, conn.CommandLine("status", o.ID))
	case err != nil:
		return fmt.Errorf("start %s %s %s: %w", o.Kind.Noun, o.ID, conn.Target, err)
	}
	return nil
}

// Options are the start options of a workflow. Its ID may be used again, unless the
// caller forbids it. The memo gets the status and the mark of the built-in model.
func Options(conn *hall.Connection, workflow, summary string, memo map[string]any, offline bool) client.StartWorkflowOptions {
	const maxSummary = 400 // Temporal's limit, in bytes
	memo[drive.MemoStatus] = drive.Running
	if offline {
		memo[drive.MemoOffline] = true
	}
	return client.StartWorkflowOptions{
		ID:                                       workflow,
		TaskQueue:                                conn.Queue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            text.Truncate(progress.Line(summary), maxSummary),
		Memo:                                     memo,
	}
}
