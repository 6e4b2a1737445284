package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"conclave/activities"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
	scenarioflow "conclave/workflows/scenario"
)

// trial is one run of a scenario, as a command sees it.
type trial struct {
	slug, id, title string
	input           scenarioflow.Input

	copy     *project.Copy // nil on a cluster without a bucket
	document []byte        // result.json as it was last seen; nil before
	run      scenario.Run  // the same, read
	told     int           // steps whose end was told
	problem  error         // why it was not run, or not seen to its end
}

func (t *trial) workflow() string { return workflow(t.slug, t.id) }

// take takes a result that was seen.
func (t *trial) take(document []byte) error {
	run, err := scenario.ParseRun(document, t.slug, t.id)
	if err == nil {
		t.document, t.run = document, run
	}
	return err
}

// try runs the scenarios, follows them and says what came out.
func try(ctx context.Context, conn *hall.Connection, w *order) error {
	pickUp(ctx, conn, w.from, w.slugs())
	if t := w.trials[0]; t.input.Resume {
		if run, err := w.from.Run(t.slug, t.id); err == nil && !run.Over() && goesOn(ctx, conn, t) {
			return hall.Exitf(hall.ExitUsage, "go on with run %s of scenario %s: it goes on still; `%s` follows it", t.id, t.slug, commandLine(conn.CLI, "watch", w.dir, t.slug, t.id))
		}
	}
	if err := w.place(conn); err != nil {
		return err
	}
	introduceTrials(conn, w)
	stop, err := team.RunWorker(conn, w.tools)
	if err != nil {
		return err
	}
	defer stop()
	if conn.Cluster {
		conn.WarnIdle(ctx)
		if conn.Store == nil {
			conn.Infof("evidence stays in the cluster's bucket; name it with --bucket (and --prefix) to have it in %s", w.dir)
			sayExposed(conn.CLI, w)
		}
	}
	board := &trialBoard{cli: conn.CLI}
	var group errgroup.Group
	group.SetLimit(w.flags.parallel)
	for _, t := range w.trials {
		group.Go(func() error {
			if ctx.Err() != nil {
				t.problem = ctx.Err()
				return nil
			}
			if err := beginTrial(ctx, conn, w, t); err != nil {
				t.problem, t.id = hall.Exitf(hall.ExitUsage, "%w", err), "" // nothing was started
				return nil
			}
			t.problem = followTrial(ctx, conn, w.from, w.dir, t, board)
			return nil
		})
	}
	_ = group.Wait() // what went wrong is noted with each
	return reportTrials(ctx, conn.CLI, w)
}

// goesOn reports whether the workflow of a run is there and open. What was terminated
// from outside could not complete its result: it looks as if it ran for ever.
func goesOn(ctx context.Context, conn *hall.Connection, t *trial) bool {
	asking, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(asking, t.workflow(), "")
	if err != nil {
		return !errors.As(err, new(*serviceerror.NotFound))
	}
	return reply.GetWorkflowExecutionInfo().GetCloseTime() == nil
}

func (w *order) slugs() []string {
	var slugs []string
	for _, t := range w.trials {
		slugs = append(slugs, t.slug)
	}
	return slugs
}

func introduceTrials(conn *hall.Connection, w *order) {
	if w.flags.offline {
		conn.Infof("offline: the built-in deterministic model plays the agent; no language model is asked and nothing is tested")
	}
	if conn.Scripted() {
		return
	}
	conn.Infof("%s %s, agent from %s: %s", progress.Plural(len(w.trials), "scenario"), conn.Target, w.source, team.Describe(w.team))
	if !conn.Cluster {
		conn.Infof("in the browser: %s", conn.Stack.UIAddress)
	}
}

// followTrial watches a run to its end, and brings its results and evidence to the
// project after every step.
func followTrial(ctx context.Context, conn *hall.Connection, to *project.Project, dir string, t *trial, board *trialBoard) error {
	if conn.Store != nil {
		var err error
		if t.copy, err = to.Copy(conn.Store, t.slug, t.id); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	var result json.RawMessage
	go func() { ended <- conn.Client.GetWorkflow(waiting, t.workflow(), "").Get(waiting, &result) }()
	tick := time.NewTicker(runs.PollInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if ctx.Err() == nil {
				err = lastOfTrial(ctx, conn, to, t, result, err)
			}
			board.tell(t)
			if ctx.Err() == nil {
				return err
			}
			return hall.Exitf(hall.ExitInterrupted, "interrupted: nothing of run %s of scenario %s is lost; `%s` goes on with it", t.id, t.slug, commandLine(conn.CLI, "watch", dir, t.slug, t.id))
		case <-tick.C:
			// A look that fails says nothing that the last one does not say better.
			_ = t.look(waiting, conn, to)
			board.tell(t)
		}
	}
}

// look takes the run as it stands: from the store, else from its workflow.
func (t *trial) look(ctx context.Context, conn *hall.Connection, to *project.Project) error {
	if t.copy != nil {
		document, err := t.copy.Update(ctx)
		if document == nil {
			return err
		}
		return errors.Join(err, t.take(document))
	}
	var state scenarioflow.State
	if err := runs.Query(ctx, conn, t.workflow(), drive.StateQuery, &state); err != nil {
		return err
	}
	document, err := json.Marshal(state.Result)
	if err != nil || t.run.Over() || t.run.RunNumber > 0 && len(state.Steps) == len(t.run.Steps) && state.Status == t.run.Status {
		return err
	}
	return errors.Join(t.take(document), to.Note(t.slug, t.id, document))
}

// lastOfTrial takes the end of a run: the store's word, else the workflow's.
func lastOfTrial(ctx context.Context, conn *hall.Connection, to *project.Project, t *trial, result json.RawMessage, ended error) error {
	err := t.look(ctx, conn, to)
	if ended == nil && !t.run.Over() {
		err = errors.Join(t.take(result), to.Note(t.slug, t.id, result))
	}
	if errors.Is(err, project.ErrNoRun) {
		err = nil // it did not come that far
	}
	if t.run.Over() {
		return err
	}
	why := withoutResult(t, ended)
	if refusedRun(ended) != nil && t.run.RunNumber == 0 {
		// It never began: its folder says that it runs, and would say so for ever.
		err, t.id = errors.Join(err, t.unstarted(ctx, conn, to)), ""
	}
	return errors.Join(why, err)
}

// refusedRun is why a worker refused what a run was started with; nil if none did.
func refusedRun(err error) *temporal.ApplicationError {
	var refused *temporal.ApplicationError
	if errors.As(err, &refused) {
		switch refused.Type() {
		case drive.InvalidInput, activities.ConfigInvalid, activities.SessionTaken:
			return refused
		}
	}
	return nil
}

// withoutResult says why a run has ended and has no result.
func withoutResult(t *trial, err error) error {
	var (
		refused *temporal.ApplicationError
		missing *serviceerror.NotFound
		over    *temporal.WorkflowExecutionError
	)
	switch {
	case err == nil:
		return fmt.Errorf("run %s of scenario %s has ended without a result", t.id, t.slug)
	case errors.As(err, &missing):
		return fmt.Errorf("there is no run %s of scenario %s where this command looks; check --address and --data-dir", t.id, t.slug)
	case refusedRun(err) != nil:
		return hall.Exitf(hall.ExitUsage, "run %s of scenario %s: %s", t.id, t.slug, refusedRun(err).Message())
	case errors.As(err, &refused):
		return fmt.Errorf("run %s of scenario %s: %s", t.id, t.slug, refused.Message())
	}
	if !errors.As(err, &over) {
		return hall.Exitf(hall.ExitInterrupted, "lost sight of run %s of scenario %s: %w; nothing of it is lost, `conclave scenario watch` goes on with it", t.id, t.slug, err)
	}
	return fmt.Errorf("run %s of scenario %s was ended from outside: %w; `conclave scenario run DIR %s --retry %s` goes on with it", t.id, t.slug, errors.Unwrap(over), t.slug, t.id)
}

// pickUp brings what the store has of runs that this project last saw running.
func pickUp(ctx context.Context, conn *hall.Connection, to *project.Project, slugs []string) {
	if conn.Store == nil {
		return
	}
	for _, slug := range slugs {
		runs, _, err := to.Runs(slug)
		if err != nil {
			continue // whoever reads them next says so
		}
		changed := false
		for _, r := range runs {
			if r.Over() {
				continue
			}
			over, err := pickUpRun(ctx, conn, to, r)
			if err != nil {
				conn.Infof("run %s of scenario %s: %v", r.RunID, slug, err)
			}
			changed = changed || over
		}
		if changed {
			if _, err := to.Fold(ctx, slug); err != nil {
				conn.Infof("%v", err)
			}
		}
	}
}

func pickUpRun(ctx context.Context, conn *hall.Connection, to *project.Project, r scenario.Run) (over bool, err error) {
	from, err := to.Copy(conn.Store, r.Scenario, r.RunID)
	if err != nil {
		return false, err
	}
	document, err := from.Update(ctx)
	switch {
	case errors.Is(err, project.ErrNoRun):
		return false, fmt.Errorf("%w: it was started elsewhere (--address, --bucket, --data-dir), or has not begun; %s is all there is", err, to.Path(r.Scenario, "runs", r.RunID))
	case err != nil:
		return false, err
	}
	now, err := scenario.ParseRun(document, r.Scenario, r.RunID)
	if err == nil && !now.Over() {
		conn.Infof("run %s of scenario %s has not ended; `%s` goes on with it", r.RunID, r.Scenario, commandLine(conn.CLI, "watch", to.Dir(), r.Scenario, r.RunID))
	}
	return now.Over(), err
}

// firstLine is the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
