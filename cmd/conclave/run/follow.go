package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/text"
	"conclave/workflows"
)

const (
	// pollInterval is the interval between queries for the state of a followed run.
	pollInterval = 250 * time.Millisecond
	// describeInterval is the interval between requests for the pending activities.
	describeInterval = time.Second
)

// Follower shows a run until it ends.
type Follower struct {
	conn     *cli.Connection
	run      Run
	display  cli.Display
	snapshot snapshot
	keys     *keyboard // nil unless a person steers the run by keys

	shown      int       // number of events shown
	answered   time.Time // when a worker last answered
	described  time.Time // when the server was last asked for activities
	warnedIdle bool

	paused, parked time.Time // the last times at which each kind of hold began
}

// snapshot queries the state of a run for display. The result has no activities and times.
type snapshot func(context.Context, *Follower) (cli.Snapshot, error)

// ErrParked is the error of Follow for a parked run if the output is not a terminal.
var ErrParked = errors.New("parked")

// ErrWaiting is the error of Follow for a run that waits for a person alone, if the output is not a terminal.
var ErrWaiting = errors.New("waiting for a person")

// Follow shows a run while wait waits for its end. It returns early with ErrParked or ErrWaiting, or if
// no worker can answer.
func Follow[R any](ctx context.Context, conn *cli.Connection, run Run, d cli.Display, s snapshot, wait func(context.Context) (R, error)) (R, error) {
	f := &Follower{conn: conn, run: run, display: d, snapshot: s, answered: time.Now()}
	stop := f.listenToKeys(ctx)
	result, err := Poll(ctx, pollInterval, nil, wait, func(ctx context.Context) (time.Duration, error) { return pollInterval, f.showState(ctx) })
	stop()
	if err == nil {
		if f.run.Running() {
			f.run.Closed = time.Now()
		}
		_ = f.showState(ctx) // the result is known without the last event
	}
	return result, err
}

// Poll looks at a run while wait waits for its end. look returns the time until the next look, or
// an error that ends the wait. A value from wake brings the next look forward to the first interval.
func Poll[R any](ctx context.Context, first time.Duration, wake <-chan struct{}, wait func(context.Context) (R, error), look func(context.Context) (next time.Duration, err error)) (R, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		result R
		err    error
	}
	ends := make(chan end, 1)
	go func() {
		result, err := wait(waiting)
		ends <- end{result, err}
	}()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case e := <-ends:
			return e.result, e.err
		case <-wake:
			timer.Reset(first)
		case <-timer.C:
			next, err := look(waiting)
			if err != nil {
				var none R
				return none, err
			}
			timer.Reset(next)
		}
	}
}

// showState queries the state and shows it. It returns an error only if further queries cannot succeed.
func (f *Follower) showState(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := f.snapshot(asking, f)
	if err != nil {
		if ctx.Err() != nil || time.Since(f.answered) < patience {
			return nil
		}
		return f.explainSilence(ctx)
	}
	f.answered, f.warnedIdle = time.Now(), false
	f.refreshActivities(asking, len(s.News) > 0)
	_, s.Offline = f.run.ExplainOffline()
	s.Started, s.Elapsed, s.Now = f.run.Started, f.run.Elapsed(), time.Now()
	if f.run.Running() {
		s.Activities, s.State = f.run.Activities, f.run.Counting(s.State)
	}
	cli.Since(s.Holds, f.paused, f.parked)
	s.Holds = append(QuestionHolds(f.conn.CLI, f.run), s.Holds...)
	f.show(s)
	if !f.conn.Interactive() && f.waitsAlone(asking) {
		return ErrWaiting
	}
	if !f.conn.Interactive() && slices.ContainsFunc(s.Holds, func(h cli.Hold) bool { return h.Parked }) {
		return ErrParked
	}
	return nil
}

// Query queries the followed run.
func (f *Follower) Query(ctx context.Context, name string, into any) error {
	return Query(ctx, f.conn, f.run.Workflow, name, into)
}

// Behind reports whether the display lacks some of a run's events, given their number.
func (f *Follower) Behind(events int) bool { return events > f.shown }

// News returns the events that have not been shown, and the number of earlier events that were
// lost.
func (f *Follower) News(events []coordination.Entry) (news []coordination.Entry, missed int) {
	for _, e := range events {
		switch e.Kind {
		case coordination.EntryPaused:
			f.paused = e.Time
		case coordination.EntryFailed:
			f.parked = e.Time
		}
	}
	for i, e := range events {
		if e.Seq > f.shown {
			news = events[i:]
			missed = e.Seq - f.shown - 1
			f.shown = events[len(events)-1].Seq
			break
		}
	}
	return news, missed
}

// refreshActivities refreshes the activities every describeInterval, and at once after events, because
// steps have ended or begun. It ignores failures.
func (f *Follower) refreshActivities(ctx context.Context, news bool) {
	if !f.run.Running() || !news && time.Since(f.described) < describeInterval {
		return
	}
	if run, err := describeRun(ctx, f.conn, f.run.Workflow, f.run.Kind); err == nil {
		f.run.Activities, f.run.Spent, f.run.Questions, f.described = run.Activities, run.Spent, run.Questions, time.Now()
	}
}

// waitsAlone reports whether the team or the step that asks a person is all that the run waits for.
func (f *Follower) waitsAlone(ctx context.Context) bool {
	if len(f.run.Questions) == 0 || !f.run.Running() || len(f.run.Activities) > 0 {
		return false
	}
	var state struct {
		Phase coordination.Phase `json:"phase"`
	}
	err := Query(ctx, f.conn, f.run.Questions[0].Workflow, workflows.StateQuery, &state)
	return err == nil && state.Phase == coordination.PhaseWaitingForPerson
}

// explainSilence determines why no worker answers. It reports each silence of other processes'
// workers once.
func (f *Follower) explainSilence(ctx context.Context) error {
	if f.conn.StackEnded() {
		return errors.New("the local stack has ended; its log is " + f.conn.Stack.LogFile)
	}
	if f.conn.Polls(f.run.queueName(f.conn)) || f.warnedIdle {
		return nil
	}
	if why, _ := f.conn.Silence(ctx, f.run.queueName(f.conn)); why != "" {
		f.warnedIdle = true
		f.display.Note(why)
	}
	return nil
}

// Holds returns the reasons why a workflow waits for a person, each with the command that
// releases it. Parked is nil unless the run is parked; onRetry describes the effect of
// retry.
func Holds(c *cli.CLI, workflow string, paused bool, parked *string, onRetry string) []cli.Hold {
	const maxParked = 300 // longest text in bytes: every failed agent has a row of its own
	var holds []cli.Hold
	if paused {
		holds = append(holds, cli.Hold{Why: "paused by a person", Release: "`" + c.CommandLine("resume", workflow) + "` resumes it"})
	}
	if parked != nil {
		_, why, _ := strings.Cut(*parked, ": ") // text without the remedies: Release has the commands
		holds = append(holds, cli.Hold{
			Why:     "parked: " + text.Truncate(why, maxParked),
			Release: "`" + c.CommandLine("retry", workflow) + "` " + onRetry,
			Parked:  true,
		})
	}
	return holds
}

const (
	// patience is how long a worker may take to answer before a person is notified.
	patience = 3 * time.Second
	// probeDelay is how long a request may take before the workers are probed.
	probeDelay = time.Second
	// probeInterval is the time between two probes of a run's workers.
	probeInterval = 10 * time.Second
)

// awaitNoting waits, and meanwhile probes the workers of other processes with queries of a run. It
// calls note once for each silence; polled is false if no worker polls the task queue. An error of
// note ends the wait.
func awaitNoting[R any](ctx context.Context, conn *cli.Connection, run Run, wait func(context.Context) (R, error), note func(why string, polled bool) error) (R, error) {
	noted, queue := false, run.queueName(conn)
	return Poll(ctx, probeDelay, nil, wait, func(ctx context.Context) (time.Duration, error) {
		silent := !conn.Polls(queue) && isSilent(ctx, conn, run.Workflow)
		if silent && !noted {
			if why, polled := conn.Silence(ctx, queue); why != "" && ctx.Err() == nil {
				if err := note(why, polled); err != nil {
					return 0, err
				}
			}
		}
		noted = silent
		return probeInterval, nil
	})
}

// isSilent reports whether no worker answers a query in time.
func isSilent(ctx context.Context, conn *cli.Connection, workflow string) bool {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := conn.Client.QueryWorkflow(asking, workflow, "", workflows.StateQuery)
	return lacksWorker(asking, err) && ctx.Err() == nil
}

// lacksWorker reports whether a query failed for lack of a worker: it timed out, the server
// has seen no poll, or the workflow has not had its first task.
func lacksWorker(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	_, refused := errors.AsType[*serviceerror.FailedPrecondition](err)
	_, early := errors.AsType[*serviceerror.WorkflowNotReady](err)
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	return refused || early || late || ctx.Err() != nil
}

// silenceError is the reason why no worker answers.
type silenceError struct{ why string }

func (e *silenceError) Error() string { return e.why }

// queryInTime queries the state of a run. It returns a silenceError if no worker of another
// process answers. For a person, or if no worker polls the task queue, it gives up early.
func queryInTime(ctx context.Context, conn *cli.Connection, run Run, into any) error {
	if conn.Polls(run.queueName(conn)) {
		return Query(ctx, conn, run.Workflow, workflows.StateQuery, into)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	impatient := time.AfterFunc(patience, func() {
		if _, polled := conn.Silence(asking, run.queueName(conn)); !polled || !conn.Scripted() {
			stop()
		}
	})
	defer impatient.Stop()
	err := Query(asking, conn, run.Workflow, workflows.StateQuery, into)
	_, answered := errors.AsType[*serviceerror.QueryFailed](err)
	if err == nil || answered || ctx.Err() != nil {
		return err
	}
	if why, _ := conn.Silence(ctx, run.queueName(conn)); why != "" {
		return &silenceError{why: why}
	}
	return err
}

// printMemo prints the part of a run's state that is in the memo and needs no worker.
func printMemo(ctx context.Context, conn *cli.Connection, run Run, why string) error {
	if conn.Scripted() {
		conn.Warnf("%s; this is only the memo of %s", why, run)
		return conn.PrintJSON(run.memoState())
	}
	parts := []string{cli.Line(run.ID), run.Shown()}
	if round := Memo(run.Memo, workflows.MemoRound, 0); round > 0 {
		parts = append(parts, fmt.Sprintf("round %d", round))
	}
	if step := Memo(run.Memo, workflows.MemoStep, ""); step != "" {
		parts = append(parts, "at "+cli.Line(step))
	}
	parts = append(parts, cli.Clock(run.Elapsed()))
	if _, words := run.ExplainOffline(); words != "" {
		parts = append(parts, words)
	}
	lines := []string{strings.Join(parts, " · ")}
	if query := cli.Line(run.Query); query != "" {
		lines = append(lines, "  "+query)
	}
	if run.Continues != "" {
		lines = append(lines, "  continues "+run.Continues)
	}
	paused, parked := run.holdState()
	for _, h := range append(QuestionHolds(conn.CLI, run), Holds(conn.CLI, run.Workflow, paused, parked, "runs the failed steps again, `cancel` ends it")...) {
		lines = append(lines, "  "+h.Why, "    "+h.Release)
	}
	return PrintStatus(ctx, conn, run, append(lines, "  the rest is unknown: "+why), "")
}

// queueName returns the task queue of the run, or else that of the command.
func (r Run) queueName(conn *cli.Connection) string { return cmp.Or(r.taskQueue, conn.Queue) }

// holdState reports whether an open run is paused, and returns the reason if it is parked.
func (r Run) holdState() (paused bool, parked *string) {
	if !r.Running() {
		return false, nil
	}
	if why := Memo(r.Memo, workflows.MemoParked, ""); why != "" {
		parked = &why
	}
	return Memo(r.Memo, workflows.MemoPaused, false), parked
}

func (r Run) memoState() map[string]any {
	paused, parked := r.holdState()
	known := map[string]any{r.Kind.StateKeys[0]: r.ID, r.Kind.StateKeys[1]: r.Query, "status": r.Shown(), "paused": paused, "parked": parked}
	if round := Memo(r.Memo, workflows.MemoRound, 0); round > 0 {
		known["round"] = round
	}
	if step := Memo(r.Memo, workflows.MemoStep, ""); step != "" {
		known["step"] = step
	}
	if r.Continues != "" {
		known["continues"] = r.Continues
	}
	return known
}
