package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// maxMemoQuery is the maximum length of the query in the memo, in characters.
const maxMemoQuery = 200

// Order is a run to start.
type Order struct {
	Kind    *Kind
	ID      string
	Query   string // query for people
	Source  string // source of the team or the steps, for people; may be empty
	Input   any    // input of the workflow
	Offline bool
	IDFlag  string // the flag that sets the ID
	Team    string // name of the team or of its file; may be empty. Its sessions share a fairness key

	Continues string // ID of the session whose conversation the run continues
}

// Start starts a run and prints its ID. For programs it prints only the note on the built-in model.
func Start(ctx context.Context, conn *hall.Connection, o Order) error {
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	memo := map[string]any{o.Kind.MemoID: o.ID, drive.MemoQuery: text.HeadRunes(o.Query, maxMemoQuery)}
	if o.Continues != "" {
		memo[drive.MemoContinues] = o.Continues
	}
	if o.Team != "" {
		memo[drive.MemoTeam] = o.Team
	}
	options := Options(conn, o.ID, o.Query, memo, o.Offline)
	options.Priority = drive.Priority(o.Team)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	_, err := conn.Client.ExecuteWorkflow(starting, options, o.Kind.Type, o.Input)
	_, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	switch {
	case taken:
		return hall.Exitf(hall.ExitUsage, "start %s %s: the ID is in use %s; choose another %s, or follow it with `%s`",
			o.Kind.Noun, o.ID, conn.Target, o.IDFlag, conn.CommandLine("watch", o.ID))
	case err != nil && ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted while starting %s %s; `%s` says whether it runs", o.Kind.Noun, o.ID, conn.CommandLine("status", o.ID))
	case err != nil:
		return fmt.Errorf("start %s %s %s: %w", o.Kind.Noun, o.ID, conn.Target, err)
	}
	if o.Offline {
		conn.Infof("%s", o.Kind.OfflineNote)
	}
	if conn.Scripted() {
		return nil
	}
	conn.Infof("%s %s %s", o.Kind.Noun, o.ID, conn.Target)
	if o.Source != "" {
		conn.Infof("%s", o.Source)
	}
	printLinks(conn, o.Kind, o.ID, o.ID)
	return nil
}

// printLinks prints the addresses of a run's page, if pages are served, and of its workflow in
// Temporal's Web UI.
func printLinks(conn *hall.Connection, kind *Kind, id, workflow string) {
	if conn.Pages != "" && kind.Page != "" {
		conn.Infof("its page: %s%s%s", conn.Pages, kind.Page, id)
	}
	if !conn.Cluster {
		conn.Infof("in Temporal: %s", conn.URL(workflow))
	}
}

// Options returns the start options of a workflow. Its ID may be reused.
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

// Watch follows a run that this command started. Unless the target is a cluster, it also runs a
// worker.
func Watch(ctx context.Context, conn *hall.Connection, o Order, w *team.Worker) error {
	stop, err := team.RunWorker(conn, w, o.ID)
	if err != nil {
		return hall.Exitf(hall.ExitNoAnswer, "run %s %s: %w; `%s` continues it", o.Kind.Noun, o.ID, err, conn.CommandLine("watch", o.ID))
	}
	defer stop()
	return o.Kind.Watch(ctx, conn, Run{Kind: o.Kind, ID: o.ID, Workflow: o.ID, Offline: o.Offline, Started: time.Now()})
}

// Await waits for the end of a run and returns its result. If Temporal ended the run, ended
// builds the result from the closed run, the status and the error. A cancelled run has a nil
// error, and its own result if it had been prepared.
func Await[R any](ctx context.Context, conn *hall.Connection, run Run, ended func(run Run, status string, err *artifact.Error) R) (r R, err error) {
	err = conn.Client.GetWorkflow(ctx, run.Workflow, "").Get(ctx, &r)
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	failed, ok := errors.AsType[*temporal.WorkflowExecutionError](err)
	if !ok {
		return r, fmt.Errorf("wait for %s: %w", run, err)
	}
	if drive.CanceledResult(err, &r) {
		return r, nil
	}
	status, cause := endOf(run.Kind, failed)
	if _, terminated := errors.AsType[*temporal.TerminatedError](err); terminated {
		cause = cmp.Or(closingError(ctx, conn, run), cause)
	}
	return ended(Refreshed(ctx, conn, run), status, cause), nil
}

// RefusedInput reports whether an error type means that a worker refused the input, which is a
// usage error.
func RefusedInput(errorType string) bool {
	switch errorType {
	case drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken, activities.Unresumable:
		return true
	}
	return false
}

// LeaveOpen prints the running result for programs and returns the error of a command whose wait
// for the run failed.
func LeaveOpen(ctx context.Context, conn *hall.Connection, run Run, running any, waitErr error) error {
	if errors.Is(waitErr, converter.ErrEncodingIsNotSupported) { // an ended run, without the key of its result
		return waitErr
	}
	if conn.Scripted() {
		if err := conn.PrintJSON(running); err != nil {
			return err
		}
	}
	how := "it continues; follow it with `"
	if !conn.Cluster {
		how = "it continues as soon as a worker of this data directory runs; follow it with `"
	}
	how += conn.CommandLine("watch", run.Workflow) + "`"
	switch {
	case errors.Is(waitErr, ErrParked):
		return hall.Exitf(hall.ExitNoAnswer, "%s is parked and stays open: mend the cause, then `%s`; it goes on while a worker runs", run, conn.CommandLine("retry", run.Workflow))
	case ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted: nothing of %s is lost, %s", run, how)
	}
	return hall.Exitf(hall.ExitInterrupted, "lost the connection to %s: %w; nothing of it is lost, %s", run, waitErr, how)
}

// Text is the text of a result. Path names the document with the whole text; it is nil if no
// document has it.
type Text struct {
	Content   string
	Truncated bool
	Path      *string
}

// PrintText prints a text. It reads a truncated text in full from its path.
func PrintText(ctx context.Context, conn *hall.Connection, layout artifact.Layout, t Text) error {
	whole, err := WholeText(ctx, conn, layout, t)
	if err != nil {
		conn.Infof("only the first %d bytes of the text are shown: %v; the whole text is at %s", len(t.Content), err, *t.Path)
		whole = t.Content
	}
	return conn.Print(strings.TrimRight(text.Terminal(whole), "\n") + "\n")
}

// WholeText returns a text in full.
func WholeText(ctx context.Context, conn *hall.Connection, layout artifact.Layout, t Text) (string, error) {
	if !t.Truncated || t.Path == nil {
		return t.Content, nil
	}
	return readText(ctx, conn, layout, *t.Path)
}

func readText(ctx context.Context, conn *hall.Connection, layout artifact.Layout, path string) (string, error) {
	if conn.Store == nil {
		return "", errors.New("reading more needs --bucket")
	}
	_, name, ok := strings.Cut(path, layout.Root())
	if !ok {
		return "", errors.New("its path is not in the run's directory")
	}
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	a, err := artifact.ReadJSON[artifact.Answer](ctx, conn.Store, layout.File(name))
	return a.Answer, err
}

// PullCommand returns the command line that copies a run. On a cluster it takes the bucket from the
// part of path before root.
func PullCommand(conn *hall.Connection, id string, path *string, root string) string {
	if conn.Cluster && path != nil {
		if rest, ok := strings.CutPrefix(*path, "s3://"); ok {
			bucket, key, _ := strings.Cut(rest, "/")
			line := "conclave pull " + id + " DIR --bucket " + text.ShellQuote(bucket)
			prefix, _, _ := strings.Cut("/"+key, root)
			if prefix = strings.Trim(prefix, "/"); prefix != "" {
				line += " --prefix " + text.ShellQuote(prefix)
			}
			return line
		}
	}
	return conn.CommandLine("pull", id, "DIR")
}

// PrintStatus prints lines about a run and suggests the next commands. result names
// the kind of its result, if there is one.
func PrintStatus(ctx context.Context, conn *hall.Connection, run Run, lines []string, result string) error {
	switch {
	case run.Running():
		lines = append(lines, "  follow it: "+conn.CommandLine("watch", run.Workflow))
	case result != "":
		lines = append(lines, "  its "+result+": "+conn.CommandLine("result", run.Workflow))
		if run.undecided() {
			lines = append(lines, "  vote again: "+conn.CommandLine("say", run.Workflow, "TEXT")+", or "+conn.CommandLine("retry", run.Workflow))
		}
	case run.canGoOn(ctx, conn):
		lines = append(lines, "  go on with it: "+conn.CommandLine("retry", run.Workflow))
	}
	if !conn.Cluster {
		lines = append(lines, "  in Temporal while a stack runs: "+conn.URL(run.Workflow))
	}
	return conn.Print(text.Terminal(strings.Join(lines, "\n") + "\n"))
}

// PrintState prints the state of a run as JSON.
func PrintState(conn *hall.Connection, run Run, state any) error {
	if run.Offline {
		conn.Infof("%s", run.Kind.OfflineNote)
	}
	return conn.PrintJSON(state)
}
