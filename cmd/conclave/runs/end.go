package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/engine/artifact"
	"conclave/workflows/drive"
)

// End is how Temporal ended a run that has no result of its own.
type End struct {
	Status string
	Error  *artifact.Error // nil if it was cancelled
}

// Await waits for the end of a run and decodes its result. The End is set instead of
// the result if Temporal ended the run.
func Await[R any](ctx context.Context, conn *hall.Connection, run Run) (r R, end *End, err error) {
	err = conn.Client.GetWorkflow(ctx, run.Workflow, "").Get(ctx, &r)
	if err == nil {
		return r, nil, nil
	}
	if ctx.Err() != nil {
		return r, nil, ctx.Err()
	}
	ended, ok := errors.AsType[*temporal.WorkflowExecutionError](err)
	if !ok {
		return r, nil, fmt.Errorf("wait for %s: %w", run, err)
	}
	return r, endOf(run.Kind, ended), nil
}

// endOf translates the error of a workflow.
func endOf(kind *Kind, err error) *End {
	if _, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return &End{Status: drive.Cancelled}
	}
	end := &End{Status: kind.Failed, Error: &artifact.Error{Type: "WorkflowFailed", Message: err.Error()}}
	if _, ok := errors.AsType[*temporal.TerminatedError](err); ok {
		end.Error = &artifact.Error{Type: "Terminated", Message: "the workflow was terminated"}
	} else if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		end.Error = &artifact.Error{Type: application.Type(), Message: application.Message()}
	} else if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		end.Error = &artifact.Error{Type: "WorkflowTimeout", Message: "the workflow's own timeout, set by whoever started it, ran out"}
	}
	return end
}

// RefusedInput reports whether an error type of a result means that a worker refused
// the input, which is a usage error.
func RefusedInput(errorType string) bool {
	switch errorType {
	case drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken:
		return true
	}
	return false
}

// Conclude prints the result of a run that was waited for. If waiting failed, the run
// goes on: programs get its running result, people the command that follows it.
func Conclude[R any](ctx context.Context, conn *hall.Connection, run Run, result R, running any, waitErr error, print func(R) error) error {
	if waitErr == nil {
		return print(result)
	}
	if conn.Scripted() {
		if err := conn.PrintJSON(running); err != nil {
			return err
		}
	}
	return Unfinished(ctx, conn, run, waitErr)
}

// Unfinished is the error of a command that stopped watching a run that goes on.
func Unfinished(ctx context.Context, conn *hall.Connection, run Run, cause error) error {
	how := "it goes on without us; follow it with `"
	if !conn.Cluster {
		how = "it goes on as soon as a worker of this data directory runs; follow it with `"
	}
	how += conn.CommandLine("watch", run.Workflow) + "`"
	if ctx.Err() != nil {
		return hall.Exitf(hall.ExitInterrupted, "interrupted: nothing of %s is lost, %s", run, how)
	}
	return hall.Exitf(hall.ExitInterrupted, "lost the connection to %s: %w; nothing of it is lost, %s", run, cause, how)
}

// PullCommand is the command line that copies the files of a run. Those of a cluster
// are in the bucket that the path of one of its files names, below root.
func PullCommand(conn *hall.Connection, id string, path *string, root string) string {
	bucket, prefix, ok := "", "", false
	if path != nil {
		bucket, prefix, ok = bucketOf(*path, root)
	}
	if !conn.Cluster || !ok {
		return conn.CommandLine("pull", id, "DIR")
	}
	line := "conclave pull " + id + " DIR --bucket " + hall.ShellQuote(bucket)
	if prefix != "" {
		line += " --prefix " + hall.ShellQuote(prefix)
	}
	return line
}

// bucketOf splits the address of a file in a bucket into the bucket and the prefix
// above root.
func bucketOf(path, root string) (bucket, prefix string, ok bool) {
	rest, ok := strings.CutPrefix(path, "s3://")
	bucket, key, _ := strings.Cut(rest, "/")
	prefix, _, _ = strings.Cut("/"+key, root)
	return bucket, strings.Trim(prefix, "/"), ok
}
