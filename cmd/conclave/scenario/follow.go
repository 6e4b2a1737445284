package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// follow waits for the end of a run and copies results and evidence after every step.
func follow(ctx context.Context, conn *hall.Connection, o *order, r *run, b *board) error {
	if conn.Store != nil {
		var err error
		if r.copy, err = o.project.Copy(conn.Store, r.slug, r.id); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	var result json.RawMessage
	go func() { ended <- conn.Client.GetWorkflow(waiting, r.workflow(), "").Get(waiting, &result) }()
	defer runs.NoteSilence(waiting, conn, r.lookUp(waiting, conn), b.noteSilence)()
	tick := time.NewTicker(runs.PollInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			interrupted := ctx.Err() != nil
			if !interrupted {
				err = r.finish(ctx, conn, o.project, result, err)
			}
			b.show(r)
			if interrupted {
				return hall.Exitf(hall.ExitInterrupted, "interrupted: nothing of %s is lost; `%s` continues it", r, commandLine(conn.CLI, "watch", o.dir, r))
			}
			return err
		case <-tick.C:
			_ = r.refresh(waiting, conn, o.project) // finish reports an error that lasts
			b.show(r)
			b.showActivities(waiting, conn, r)
		}
	}
}

// lookUp returns the run as described by Temporal, which knows its task queue.
func (r *run) lookUp(ctx context.Context, conn *hall.Connection) runs.Run {
	return runs.Refreshed(ctx, conn, runs.Run{Kind: Kind(), Workflow: r.workflow()})
}

// setResult parses and stores a newer result.json.
func (r *run) setResult(document []byte) error {
	result, err := scenario.ParseRun(document, r.slug, r.id)
	if err == nil {
		r.document, r.result = document, result
	}
	return err
}

// refresh reads the current result from the store, or else from the workflow.
func (r *run) refresh(ctx context.Context, conn *hall.Connection, to *project.Project) error {
	if r.copy != nil {
		document, err := r.copy.Update(ctx)
		if document == nil {
			return err
		}
		return errors.Join(err, r.setResult(document))
	}
	var state acts.State
	if err := runs.Query(ctx, conn, r.workflow(), drive.StateQuery, &state); err != nil {
		return err
	}
	document, err := json.Marshal(state.Result)
	same := r.result.RunNumber > 0 && len(state.Steps) == len(r.result.Steps) && state.Status == r.result.Status && state.Paused == r.result.Paused
	if err != nil || same || r.result.Over() {
		return err
	}
	return errors.Join(r.setResult(document), to.Note(r.slug, r.id, document))
}

// finish reads the final result from the store, or else takes the workflow's.
func (r *run) finish(ctx context.Context, conn *hall.Connection, to *project.Project, result json.RawMessage, ended error) error {
	err := r.refresh(ctx, conn, to)
	if ended == nil && !r.result.Over() {
		err = errors.Join(r.setResult(result), to.Note(r.slug, r.id, result))
	}
	if errors.Is(err, project.ErrNoRun) {
		err = nil // it ended before its first result
	}
	if r.result.Over() {
		return err
	}
	why := withoutResult(ctx, conn, to.Dir(), r, ended)
	if refusal(ended) != nil && r.result.RunNumber == 0 {
		// Without this, the result of a run that did not start would remain running.
		err, r.id = errors.Join(err, r.discard(ctx, conn, to)), ""
	}
	return errors.Join(why, err)
}

// refusal returns the error of a worker that refused the input of a run, or nil.
func refusal(err error) *temporal.ApplicationError {
	if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok && runs.RefusedInput(refused.Type()) {
		return refused
	}
	return nil
}

// withoutResult returns the error for a run that ended without a result. dir is the directory of
// its scenario.
func withoutResult(ctx context.Context, conn *hall.Connection, dir string, r *run, err error) error {
	if err == nil {
		return fmt.Errorf("%s has ended without a result", r)
	}
	if why := runs.WhyEnded(ctx, conn, r.workflow()); runs.CutOff(why) {
		return errors.New(r.cutOff(conn.CLI, dir, why))
	}
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return fmt.Errorf("there is no %s where this command looks; check --address and --data-dir", r)
	}
	if refused := refusal(err); refused != nil {
		return hall.Exitf(hall.ExitUsage, "%s: %s", r, refused.Message())
	}
	if failed, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return fmt.Errorf("%s: %s", r, failed.Message())
	}
	if ended, ok := errors.AsType[*temporal.WorkflowExecutionError](err); ok {
		return fmt.Errorf("%s was ended from outside: %w; `%s` continues it", r, errors.Unwrap(ended), r.retryCommand(conn.CLI, dir))
	}
	return hall.Exitf(hall.ExitInterrupted, "lost the connection to %s: %w; nothing of it is lost, `%s` continues it", r, err, commandLine(conn.CLI, "watch", dir, r))
}

// cutOff describes how Temporal ended a run and how the run can continue.
func (r *run) cutOff(c *hall.CLI, dir string, why *artifact.Error) string {
	return fmt.Sprintf("%s was %s; `%s` continues it", r, why.Message, r.retryCommand(c, dir))
}

// retryCommand returns the command line that continues a run that has ended.
func (r *run) retryCommand(c *hall.CLI, dir string) string {
	return c.CommandLine("scenario run", dir, r.slug, "--retry", r.id)
}

// catchUp copies the results of the project's open runs from the store. It only prints errors.
func catchUp(ctx context.Context, conn *hall.Connection, to *project.Project, slugs []string) {
	if conn.Store == nil {
		return
	}
	for _, slug := range slugs {
		open, err := openRuns(to, slug)
		if err != nil {
			continue // the next reader reports it
		}
		changed := false
		for _, r := range open {
			if err := r.catchUp(ctx, conn, to); err != nil {
				conn.Infof("%s: %v", r, err)
			}
			changed = changed || r.result.Over()
		}
		if changed {
			if _, err := to.Fold(ctx, slug); err != nil {
				conn.Infof("%v", err)
			}
		}
	}
}

// openRuns returns the runs of a scenario that have not ended according to the project.
func openRuns(in *project.Project, slug string) ([]*run, error) {
	all, _, err := in.Runs(slug)
	var open []*run
	for _, result := range all {
		if !result.Over() {
			open = append(open, &run{slug: slug, id: result.RunID})
		}
	}
	return open, err
}

func (r *run) catchUp(ctx context.Context, conn *hall.Connection, to *project.Project) error {
	from, err := to.Copy(conn.Store, r.slug, r.id)
	if err != nil {
		return err
	}
	document, err := from.Update(ctx)
	switch {
	case errors.Is(err, project.ErrNoRun):
		return fmt.Errorf("%w: it was started elsewhere (--address, --bucket, --data-dir), or has not begun; %s is all there is", err, to.Path(r.slug, "runs", r.id))
	case err != nil:
		return err
	}
	err = r.setResult(document)
	switch {
	case err != nil || r.result.Over():
	case r.wasCutOff(ctx, conn):
		conn.Infof("%s", r.cutOff(conn.CLI, to.Dir(), r.end))
	case r.result.Paused:
		conn.Infof("%s is paused; `%s` resumes it", r, commandLine(conn.CLI, "resume", to.Dir(), r))
	default:
		conn.Infof("%s has not ended; `%s` continues it", r, commandLine(conn.CLI, "watch", to.Dir(), r))
	}
	return err
}

// wasCutOff reports whether Temporal ended a run before it could write its result.
func (r *run) wasCutOff(ctx context.Context, conn *hall.Connection) bool {
	if conn.Client == nil {
		return false
	}
	r.end = runs.WhyEnded(ctx, conn, r.workflow())
	return runs.CutOff(r.end)
}

// board prints the steps of several runs as they end.
type board struct {
	cli    *hall.CLI
	resume func(*run) string // the command line that resumes a run
	mu     sync.Mutex
	warned bool // whether it has said that no worker polls the task queue
}

func newBoard(c *hall.CLI, o *order) *board {
	return &board{cli: c, resume: func(r *run) string { return commandLine(c, "resume", o.dir, r) }}
}

// show prints the steps of a run that ended since the last call.
func (b *board) show(r *run) {
	if r.result.Execution <= r.earlier && r.earlier > 0 {
		return // the record is from before the retry
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.showPause(r)
	for ; r.shown < len(r.result.Steps); r.shown++ {
		s := r.result.Steps[r.shown]
		if s.Status == scenario.Running {
			return
		}
		line := fmt.Sprintf("%s %s %s: %s", r.slug, s.ID, s.Title, s.Status)
		if s.Flaky {
			line += ", flaky: attempt " + strconv.Itoa(len(s.Attempts))
		}
		if s.Status != scenario.Skipped {
			line += " (" + duration(s.DurationMS) + ")"
		}
		if s.Error != nil {
			line += ": " + text.Truncate(*s.Error, maxReason)
		}
		b.print(line)
		for _, w := range s.Warnings {
			b.print(fmt.Sprintf("%s %s warning: %s", r.slug, s.ID, w))
		}
	}
}

// showPause prints the beginning and the end of a pause.
func (b *board) showPause(r *run) {
	paused := r.result.Paused && !r.result.Over()
	if paused == r.paused {
		return
	}
	r.paused = paused
	if paused {
		b.print(fmt.Sprintf("%s is paused; `%s` resumes it", r, b.resume(r)))
	} else if !r.result.Over() {
		b.print(r.String() + " was resumed")
	}
}

// noteSilence prints why no worker answers. If no worker polls at all, it prints this only once.
func (b *board) noteSilence(why string, polled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.warned || polled {
		b.cli.Infof("%s", why)
	}
	b.warned = !polled
}

func (b *board) print(line string) {
	out := b.cli.Stderr
	if b.cli.Automation {
		out = b.cli.Stdout
	}
	fmt.Fprintln(out, progress.Line(line))
}
