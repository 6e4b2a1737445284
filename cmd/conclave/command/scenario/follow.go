package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	"conclave/workflows"
	scenarioflow "conclave/workflows/scenario"
)

// followRun waits for the end of a run and copies results and evidence after every step.
func (o *order) followRun(ctx context.Context, conn *cli.Connection, r *run, b *board) error {
	if conn.Store != nil {
		var err error
		if r.copy, err = o.project.Copy(conn.Store, r.slug, r.id); err != nil {
			return err
		}
	}
	followed := runs.Refreshed(ctx, conn, r.asRun()) // it may have another task queue
	end, err := runActions().Follow(ctx, conn, followed, b.newLane(r.slug), func(state acts.State) {
		_ = r.refreshResult(ctx, o.project, state.Result) // finishFiles reports an error that lasts
	})
	watch := conn.CommandLine("scenario watch", o.dir, r.slug, r.id)
	switch {
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted: nothing of %s is lost; `%s` continues it", r, watch)
	case err != nil:
		return cli.Exitf(cli.ExitInterrupted, "lost the connection to %s: %w; nothing of it is lost, `%s` continues it", r, err, watch)
	}
	return r.finishFiles(ctx, conn, o, end)
}

func (r *run) asRun() runs.Run {
	return runs.Order{Kind: Kind(), ID: r.id, Slug: r.slug, Query: r.title}.Run()
}

func (r *run) setResult(document []byte) error {
	result, err := scenario.ParseRun(document, r.slug, r.id)
	if err == nil {
		r.document, r.result = document, result
	}
	return err
}

// refreshResult copies the recorded result. Without a store it writes the result of the workflow.
func (r *run) refreshResult(ctx context.Context, to *Project, now acts.Result) error {
	if r.copy == nil {
		return r.writeResult(to, now)
	}
	document, err := r.copy.Update(ctx)
	if document == nil {
		return err
	}
	return errors.Join(err, r.setResult(document))
}

// writeResult writes a workflow's result to the project, unless it is there already.
func (r *run) writeResult(to *Project, result acts.Result) error {
	if r.result.RunNumber > 0 && len(result.Steps) == len(r.result.Steps) && result.Status == r.result.Status && result.Paused == r.result.Paused {
		return nil
	}
	document, _ := json.Marshal(result) // a result always has a JSON form
	return errors.Join(r.setResult(document), to.Note(r.slug, r.id, document))
}

// finishFiles completes the files of a run that has ended. It returns an error for a run without a result.
func (r *run) finishFiles(ctx context.Context, conn *cli.Connection, o *order, end outcome) error {
	var err error
	if r.copy != nil || end.why == nil {
		err = r.refreshResult(ctx, o.project, end.Result)
	}
	if errors.Is(err, ErrNoRun) {
		err = nil // it ended before its first result
	}
	switch {
	case end.why == nil && !r.result.Over():
		return errors.Join(err, r.writeResult(o.project, end.Result))
	case end.why == nil:
		return err
	case runs.RefusedInput(end.why.Type):
		if r.result.RunNumber == 0 { // without this, the result of a run that did not start would remain running
			err = errors.Join(err, r.discardFiles(ctx, conn, o.project))
		}
		return errors.Join(cli.Exitf(cli.ExitUsage, "%s: %s", r, end.why.Message), err)
	case runs.CutOff(end.why):
		return errors.Join(fmt.Errorf("%s was %s; `%s` continues it", r, end.why.Message, r.retryCommand(conn.CLI, o.dir)), err)
	}
	return errors.Join(fmt.Errorf("%s: %s", r, end.why.Message), err)
}

func (r *run) retryCommand(c *cli.CLI, dir string) string {
	return c.CommandLine("scenario run", dir, r.slug, "--retry", r.id)
}

// catchUp copies the results of the project's open runs from the store. It returns these runs by
// SLUG/RUN_ID, with the words of the server about them, and only prints errors.
func catchUp(ctx context.Context, conn *cli.Connection, to *Project, slugs []string) map[string]*run {
	all := map[string]*run{}
	for _, slug := range slugs {
		open, _ := openRuns(to, slug) // the next reader reports the error
		changed := false
		for _, r := range open {
			all[slug+"/"+r.id] = r
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
	return all
}

// openRuns returns the runs of a scenario that have not ended according to the project.
func openRuns(in *Project, slug string) ([]*run, error) {
	all, _, err := in.Runs(slug)
	var open []*run
	for _, result := range all {
		if !result.Over() {
			open = append(open, &run{slug: slug, id: result.RunID})
		}
	}
	return open, err
}

// catchUp copies the result of a run from the store, and says how an open one goes on.
func (r *run) catchUp(ctx context.Context, conn *cli.Connection, to *Project) error {
	if conn.Client != nil {
		r.known = runs.Refreshed(ctx, conn, r.asRun())
		if why := runs.EndError(ctx, conn, r.known); runs.CutOff(why) {
			r.end = why
		}
	}
	if conn.Store == nil {
		return nil
	}
	from, err := to.Copy(conn.Store, r.slug, r.id)
	if err != nil {
		return err
	}
	document, err := from.Update(ctx)
	switch {
	case errors.Is(err, ErrNoRun):
		return fmt.Errorf("%w: it was started elsewhere (--address, --bucket, --data-dir), or has not begun; %s is all there is", err, to.Path(r.slug, "runs", r.id))
	case err != nil:
		return err
	}
	if err := r.setResult(document); err != nil || r.result.Over() {
		return err
	}
	switch {
	case r.end != nil:
		conn.Infof("%s was %s; `%s` continues it", r, r.end.Message, r.retryCommand(conn.CLI, to.Dir()))
	case r.result.Paused:
		conn.Infof("%s is paused; `%s` resumes it", r, conn.CommandLine("scenario resume", to.Dir(), r.slug, r.id))
	default:
		conn.Infof("%s has not ended; `%s` continues it", r, conn.CommandLine("scenario watch", to.Dir(), r.slug, r.id))
	}
	return nil
}

// offlineNote is printed wherever the built-in model plays the agent.
const offlineNote = "offline: the built-in deterministic model plays the agent; no language model is asked and nothing is tested"

// Kind describes scenario runs for the commands that take an ID.
func Kind() *runs.Kind {
	return &runs.Kind{
		Kind: record.Scenarios, List: "scenario status DIR", MemoID: scenarioflow.MemoRun, StateKeys: [2]string{"run_id", "title"}, UsageKey: "cost",
		Alone: "one agent runs every step", MemoSlug: scenarioflow.MemoScenario,
		Statuses: []string{string(scenario.Pass), string(scenario.Fail)}, OfflineNote: offlineNote, Actions: runActions(),
	}
}

// outcome is the result of a run, with the reason why it has none of its own.
type outcome struct {
	acts.Result
	why *artifact.Error // nil unless Temporal ended the run
}

// reporter reads and prints scenario runs.
type reporter struct{}

func runActions() runs.Reported[outcome, acts.State] {
	return runs.Reported[outcome, acts.State]{Reporter: reporter{}}
}

// AdaptUpdate implements runs.Requests. It refuses to retry an open run, and messages to an ended one.
func (reporter) AdaptUpdate(conn *cli.Connection, r runs.Run, u *runs.Update) error {
	switch {
	case u.Name == workflows.RetrySignal && r.Running():
		return cli.Exitf(cli.ExitUsage, "%s %s: it is still running; `%s` follows it", u.Action, r, conn.CommandLine("watch", r.Name()))
	case u.Name == workflows.SaySignal && !r.Running():
		return cli.Exitf(cli.ExitUsage, "%s %s: it has ended (%s), so no step would read it", u.Action, r, r.Status)
	case u.Name == workflows.SaySignal:
		u.Accepted = "sent; the running step, or else the next one, reads it at its next safe point; %s follows the run"
	}
	return nil
}

// ReopenInput implements runs.Requests. The run continues from the first step that did not pass.
func (reporter) ReopenInput(_ context.Context, conn *cli.Connection, r runs.Run, _ workflows.Request) (any, error) {
	if r.Status == string(scenario.Pass) {
		return nil, cli.Exitf(cli.ExitUsage, "retry %s: it passed; nothing was started, `%s` starts a new run",
			r, conn.CommandLine("scenario run", "DIR", r.Slug))
	}
	in := scenarioflow.Input{Resume: true}
	if r.Slug != "" {
		in.RunID, in.Plan.Slug = r.ID, r.Slug
	}
	return in, nil
}

func (reporter) NewResult(r runs.Run, status string, why *artifact.Error) outcome {
	o := outcome{acts.Result{
		RunID: r.ID, RunPath: acts.RunPath(r.Slug, r.ID), Scenario: r.Slug, Title: r.Query, Status: scenario.Status(status),
		StartedAt: artifact.Timestamp(r.Started), DurationMS: r.Elapsed().Milliseconds(), Steps: []scenario.Result{},
	}, why}
	if o.Paused = status == workflows.Paused; o.Paused {
		o.Status = scenario.Running
	}
	if !r.Running() {
		o.CompletedAt = new(artifact.Timestamp(r.Closed))
	}
	if why != nil {
		o.Error = &why.Message
	}
	return o
}

func (reporter) CompleteResult(_ runs.Run, r outcome, last acts.State) outcome {
	if last.RunID == "" {
		return r
	}
	done := outcome{last.Result, r.why}
	done.Status, done.Paused, done.CompletedAt, done.Error = r.Status, r.Paused, r.CompletedAt, cmp.Or(r.Error, last.Error)
	return done
}

func (reporter) NewDisplay(conn *cli.Connection, r runs.Run) cli.Display {
	return newBoard(conn.CLI).newLane(r.Slug)
}

// NewView implements runs.Reporter. The events are the ends of steps, and pauses.
func (reporter) NewView(conn *cli.Connection, r runs.Run) runs.View[acts.State] {
	wasPaused := false
	return func(_ context.Context, f *runs.Follower, state acts.State) cli.Snapshot {
		var s cli.Snapshot
		s.News, _ = f.News(endsOf(r.Slug, state.Steps))
		open := state.Status == scenario.Running
		switch paused := state.Paused && open; {
		case paused && !wasPaused:
			s.News = append(s.News, coordination.Entry{Text: fmt.Sprintf("%s is paused; `%s` resumes it", r, conn.CommandLine("resume", r.Name()))})
		case wasPaused && !paused && open:
			s.News = append(s.News, coordination.Entry{Text: r.String() + " was resumed"})
		}
		wasPaused = state.Paused && open
		return s
	}
}

func (reporter) PrintResult(_ context.Context, conn *cli.Connection, r runs.Run, end outcome) error {
	one := &run{slug: r.Slug, id: r.ID, result: recordOf(end.Result)}
	var err error
	if conn.Scripted() {
		err = conn.PrintJSON(end.Result)
	} else if err = conn.Print(cli.Table(resultTable([]*run{one}))); err == nil && len(end.Steps) > 0 {
		conn.Infof("all steps and evidence: %s", conn.CommandLine("pull", r.Name(), "DIR"))
	}
	if err != nil {
		return err
	}
	if r.Offline {
		conn.Infof("%s", offlineNote)
	}
	switch {
	case end.Status == scenario.Pass:
		return nil
	case end.why != nil && runs.RefusedInput(end.why.Type):
		return cli.Exitf(cli.ExitUsage, "%s: %s", r, end.why.Message)
	}
	runs.SuggestRetry(conn, r, string(end.Status))
	return cli.Exitf(cli.ExitNoAnswer, "%s: %s", r, end.Status)
}

func recordOf(r acts.Result) (record scenario.Run) {
	if data, err := json.Marshal(r); err == nil { // a result always encodes
		_ = json.Unmarshal(data, &record)
	}
	return record
}
