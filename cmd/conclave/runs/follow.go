package runs

import (
	"context"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

const (
	// PollInterval is how often a followed run is asked for its state.
	PollInterval = 250 * time.Millisecond
	// describeInterval is how often the server is asked for the pending activities of
	// a followed run.
	describeInterval = 3 * time.Second
	// patience is how long queries may fail before the cause is looked for.
	patience = 3 * time.Second
)

// Follower shows a run until it ends.
type Follower struct {
	conn     *hall.Connection
	run      Run
	display  progress.Display
	snapshot Snapshot

	shown      int       // events shown
	answered   time.Time // when a worker last answered
	described  time.Time // when the server was last asked for delays
	warnedIdle bool
}

// Snapshot queries a run for its state, for display. It fills neither the delays nor
// the time that the run has taken.
type Snapshot func(context.Context, *Follower) (progress.Snapshot, error)

// Follow shows a run while wait waits for its end. It ends early only if no worker
// can ever answer.
func Follow[R any](ctx context.Context, conn *hall.Connection, run Run, d progress.Display, s Snapshot, wait func(context.Context) (R, error)) (R, error) {
	f := &Follower{conn: conn, run: run, display: d, snapshot: s, answered: time.Now()}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		result R
		err    error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		r, err := wait(waiting)
		outcomes <- outcome{r, err}
	}()
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	for {
		select {
		case o := <-outcomes:
			if o.err == nil {
				f.showEnd(ctx)
			}
			return o.result, o.err
		case <-tick.C:
			if err := f.show(waiting); err != nil {
				var none R
				return none, err
			}
		}
	}
}

// showEnd shows a run that has ended. Its result is known, so a missing last event is
// no failure.
func (f *Follower) showEnd(ctx context.Context) {
	if f.run.Running() {
		f.run.Closed = time.Now()
	}
	_ = f.show(ctx)
}

// show queries the state and shows it. Its error means that no further query can
// succeed.
func (f *Follower) show(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.describe(asking)
	// Events of an older run were not seen happening.
	earlier := f.shown == 0 && f.run.Elapsed() > patience
	s, err := f.snapshot(asking, f)
	if err != nil {
		if ctx.Err() != nil || time.Since(f.answered) < patience {
			return nil
		}
		return f.diagnose(ctx)
	}
	f.answered = time.Now()
	s.Offline, s.Elapsed, s.Delays, s.Earlier = f.run.Offline, f.run.Elapsed(), f.delays(), earlier
	f.display.Show(s)
	return nil
}

// Query queries the followed run.
func (f *Follower) Query(ctx context.Context, name string, into any) error {
	return Query(ctx, f.conn, f.run.Workflow, name, into)
}

// Behind reports whether a run with this many events has some that are not shown.
func (f *Follower) Behind(events int) bool { return events > f.shown }

// News are the events that have not been shown, and how many before them are lost.
func (f *Follower) News(events []coordination.Entry) (news []coordination.Entry, missed int) {
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

// describe refreshes the delays now and then; the next one makes up for a failure.
func (f *Follower) describe(ctx context.Context) {
	if !f.run.Running() || time.Since(f.described) < describeInterval {
		return
	}
	if run, err := describe(ctx, f.conn, f.run.Workflow, f.run.Kind); err == nil {
		f.run.Delays, f.described = run.Delays, time.Now()
	}
}

// delays are the last known delays, as of now.
func (f *Follower) delays() []progress.Delay {
	if !f.run.Running() {
		return nil
	}
	delays := slices.Clone(f.run.Delays)
	for i := range delays {
		delays[i].Next -= time.Since(f.described)
	}
	return delays
}

// diagnose finds out why no worker answers. On a cluster the display says so once.
func (f *Follower) diagnose(ctx context.Context) error {
	if f.conn.StackEnded() {
		return errors.New("the local stack has ended; its log is " + f.conn.Stack.LogFile)
	}
	if !f.conn.Cluster || f.warnedIdle {
		return nil
	}
	if polled, err := f.conn.WorkersPoll(ctx, f.conn.Queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW); err == nil && !polled {
		f.warnedIdle = true
		f.display.Note(f.conn.NoWorker())
	}
	return nil
}

// Holds are the reasons why a workflow waits for a person, each with the command that
// releases it. Parked is nil unless the run is parked; onRetry says what retry does.
func Holds(c *hall.CLI, workflow string, paused bool, parked *string, onRetry string) []progress.Hold {
	const maxParked = 300 // in bytes: every failed agent has a row of its own
	var holds []progress.Hold
	if paused {
		holds = append(holds, progress.Hold{Why: "paused by a person", Release: "`" + c.CommandLine("resume", workflow) + "` goes on"})
	}
	if parked != nil {
		holds = append(holds, progress.Hold{
			Why:     "parked: " + text.Truncate(*parked, maxParked),
			Release: "`" + c.CommandLine("retry", workflow) + "` " + onRetry,
		})
	}
	return holds
}
