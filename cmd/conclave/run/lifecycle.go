package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/workflows"
)

// maxMemoQuery is the maximum length of the query in the memo, in characters.
const maxMemoQuery = 200

// Order is a run to start.
type Order struct {
	Kind    *Kind
	ID      string
	Slug    string // its scenario; empty for other runs
	Query   string // query for people
	Source  string // source of the team or the steps, for people; may be empty
	Input   any    // input of the workflow
	Offline bool
	IDFlag  string // the flag that sets the ID
	Team    string // name of the team or of its file; may be empty. Its sessions share a fairness key

	Continues string // ID of the session whose conversation the run continues

	Memo map[string]any // further fields of the memo; may be nil

	Open bool // open its page in a browser

	Again string // workflow ID of the ended run that the order continues; empty for a new run
	Queue string // task queue; empty for that of the command
}

// Run returns the run that the order starts.
func (o Order) Run() Run {
	run := Run{Kind: o.Kind, ID: o.ID, Slug: o.Slug, Workflow: o.ID, Query: o.Query, Status: workflows.Running, Offline: o.Offline, Started: time.Now(), taskQueue: o.Queue}
	run.Recorded = o.Memo[workflows.MemoRecorded] == true
	if o.Slug != "" {
		run.Workflow = run.Stored().WorkflowID()
	}
	run.Workflow = cmp.Or(o.Again, run.Workflow)
	return run
}

// Execute starts the workflow of an order.
func Execute(ctx context.Context, conn *cli.Connection, o Order) error {
	const maxSummary = 400 // Temporal's limit, in bytes
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	memo := map[string]any{o.Kind.MemoID: o.ID, workflows.MemoQuery: text.HeadRunes(o.Query, maxMemoQuery), workflows.MemoStatus: workflows.Running}
	maps.Copy(memo, o.Memo)
	for name, value := range map[string]string{o.Kind.MemoSlug: o.Slug, workflows.MemoContinues: o.Continues, workflows.MemoTeam: o.Team} {
		if value != "" {
			memo[name] = value
		}
	}
	if o.Offline {
		memo[workflows.MemoOffline] = true
	}
	options := client.StartWorkflowOptions{
		ID: o.Run().Workflow, TaskQueue: cmp.Or(o.Queue, conn.Queue), Memo: memo, Priority: workflows.Priority(o.Team),
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            text.Truncate(cli.Line(o.Query), maxSummary),
	}
	if o.Again != "" {
		options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	_, err := conn.Client.ExecuteWorkflow(ctx, options, o.Kind.Workflow, o.Input)
	return err
}

// IsTaken reports whether an order was refused because its ID is in use.
func IsTaken(err error) bool {
	_, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	return taken
}

// Start starts a run and prints its ID. For programs it prints only the note on the built-in model.
func Start(ctx context.Context, conn *cli.Connection, o Order) error {
	run := o.Run()
	switch err := Execute(ctx, conn, o); {
	case IsTaken(err):
		return cli.Exitf(cli.ExitUsage, "start %s: the ID is in use %s; choose another %s, or follow it with `%s`",
			run, conn.Target, o.IDFlag, conn.CommandLine("watch", run.Name()))
	case err != nil && ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted while starting %s; `%s` says whether it runs", run, conn.CommandLine("status", run.Name()))
	case err != nil:
		return fmt.Errorf("start %s %s: %w", run, conn.Target, err)
	}
	if note, _ := run.ExplainOffline(); note != "" {
		conn.Infof("%s", note)
	}
	if conn.Scripted() {
		return nil
	}
	conn.Infof("%s %s", run, conn.Target)
	if o.Source != "" {
		conn.Infof("%s", o.Source)
	}
	printLinks(conn, run)
	if o.Open {
		if err := conn.OpenPage(run.page(conn.Pages)); err != nil {
			conn.Infof("%v", err)
		}
	}
	return nil
}

// Begin connects, starts the run that prepare returns, and calls use. Unless offer is nil, pages are
// served until use returns. If prepare fails, nothing is started.
func Begin(ctx context.Context, c *cli.CLI, t cli.Target, offer Offer, prepare func(*cli.Connection) (Order, error), use func(*cli.Connection, Order) error) error {
	return c.With(ctx, t, func(conn *cli.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		o, err := prepare(conn)
		if err != nil {
			return err
		}
		if offer != nil {
			defer offer(conn, o.Kind)()
		}
		if err := Start(ctx, conn, o); err != nil {
			return err
		}
		return use(conn, o)
	})
}

// printLinks prints the addresses of a run's page, if pages are served, and of its workflow in
// Temporal's Web UI.
func printLinks(conn *cli.Connection, run Run) {
	if conn.Pages != "" {
		conn.Infof("its page: %s", run.page(conn.Pages))
	}
	if !conn.Cluster {
		conn.Infof("in Temporal: %s", conn.URL(run.Workflow))
	}
}

// page returns the address of the run's page on a server of pages.
func (r Run) page(pages string) string {
	return pages + r.Stored().Page()
}

// Watch follows a run that this command started. Unless the target is a cluster, it also runs a
// worker.
func Watch(ctx context.Context, conn *cli.Connection, o Order, w *teams.Worker) error {
	run := o.Run()
	stop, err := teams.RunWorker(conn, w, run.Workflow)
	if err != nil {
		return cli.Exitf(cli.ExitNoAnswer, "run %s: %w; `%s` continues it", run, err, conn.CommandLine("watch", run.Name()))
	}
	defer stop()
	return o.Kind.Watch(ctx, conn, run)
}

// Await waits for the end of a run and returns its result. If Temporal ended the run, ended
// builds the result from the closed run, the status and the error. A cancelled run has a nil
// error, and its own result if it had been prepared.
func Await[R any](ctx context.Context, conn *cli.Connection, run Run, ended func(run Run, status string, err *artifact.Error) R) (r R, err error) {
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
	if workflows.CanceledResult(err, &r) {
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
	case workflows.InvalidInput, activities.ConfigInvalid, activities.SessionTaken, activities.Unresumable:
		return true
	}
	return false
}

// LeaveOpen prints the running result for programs and returns the error of a command whose wait
// for the run failed.
func LeaveOpen(ctx context.Context, conn *cli.Connection, run Run, running any, waitErr error) error {
	if errors.Is(waitErr, converter.ErrEncodingIsNotSupported) { // an ended run, without the key of its result
		return waitErr
	}
	if conn.Scripted() {
		if err := conn.PrintJSON(running); err != nil {
			return err
		}
	}
	how := conn.HowItContinues() + "; follow it with `" + conn.CommandLine("watch", run.Name()) + "`"
	switch {
	case errors.Is(waitErr, ErrParked):
		return cli.Exitf(cli.ExitNoAnswer, "%s is parked and stays open: mend the cause, then `%s`; it goes on while a worker runs", run, conn.CommandLine("retry", run.Name()))
	case errors.Is(waitErr, ErrWaiting):
		if !conn.Scripted() {
			_ = conn.Print(string(coordination.PhaseWaitingForPerson) + "\n") // the exit code says the same
		}
		return cli.Exitf(cli.ExitNoAnswer, "%s waits for a person and stays open: `%s` lists the questions; it goes on while a worker runs\n%s",
			run, conn.CommandLine("inbox"), coordination.PhaseWaitingForPerson)
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted: nothing of %s is lost, %s", run, how)
	}
	return cli.Exitf(cli.ExitInterrupted, "lost the connection to %s: %w; nothing of it is lost, %s", run, waitErr, how)
}

// Text is the text of a result. Path names the document with the whole text; it is nil if no
// document has it.
type Text struct {
	Content   string
	Truncated bool
	Path      *string
}

// PrintText prints a text. It reads a truncated text in full from its path.
func PrintText(ctx context.Context, conn *cli.Connection, layout artifact.Layout, t Text) error {
	whole, err := WholeText(ctx, conn, layout, t)
	if err != nil {
		conn.Infof("only the first %d bytes of the text are shown: %v; the whole text is at %s", len(t.Content), err, *t.Path)
		whole = t.Content
	}
	return conn.PrintAnswer(whole)
}

// WholeText returns a text in full.
func WholeText(ctx context.Context, conn *cli.Connection, layout artifact.Layout, t Text) (string, error) {
	if !t.Truncated || t.Path == nil {
		return t.Content, nil
	}
	return readText(ctx, conn, layout, *t.Path)
}

func readText(ctx context.Context, conn *cli.Connection, layout artifact.Layout, path string) (string, error) {
	if conn.Store == nil {
		return "", errors.New("reading more needs --bucket")
	}
	_, name, ok := strings.Cut(path, layout.Root())
	if !ok {
		return "", errors.New("its path is not in the run's directory")
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	a, err := artifact.ReadJSON[artifact.Answer](ctx, conn.Store, layout.File(name))
	return a.Answer, err
}

// PullCommand returns the command line that copies a run. On a cluster it takes the bucket from the
// part of path before root.
func PullCommand(conn *cli.Connection, id string, path *string, root string) string {
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
func PrintStatus(ctx context.Context, conn *cli.Connection, run Run, lines []string, result string) error {
	switch {
	case run.Running():
		lines = append(lines, "  follow it: "+conn.CommandLine("watch", run.Name()))
	case result != "":
		lines = append(lines, "  its "+result+": "+conn.CommandLine("result", run.Name()))
		if run.isUndecided() {
			lines = append(lines, "  vote again: "+conn.CommandLine("say", run.Name(), "TEXT")+", or "+conn.CommandLine("retry", run.Name()))
		}
	case run.canGoOn(ctx, conn):
		lines = append(lines, "  go on with it: "+conn.CommandLine("retry", run.Name()))
	}
	if !conn.Cluster {
		lines = append(lines, "  in Temporal while a stack runs: "+conn.URL(run.Workflow))
	}
	return conn.Print(text.Terminal(strings.Join(lines, "\n") + "\n"))
}

// PrintState prints the state of a run as JSON.
func PrintState(conn *cli.Connection, run Run, state any) error {
	if note, _ := run.ExplainOffline(); note != "" {
		conn.Infof("%s", note)
	}
	return conn.PrintJSON(state)
}
