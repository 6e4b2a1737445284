package runs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

const (
	// PollInterval is the interval between queries for the state of a followed run.
	PollInterval = 250 * time.Millisecond
	// DescribeInterval is the interval between requests for the pending activities.
	DescribeInterval = time.Second
)

// Follower shows a run until it ends.
type Follower struct {
	conn     *hall.Connection
	run      Run
	display  progress.Display
	snapshot snapshot

	shown      int       // number of events shown
	answered   time.Time // when a worker last answered
	described  time.Time // when the server was last asked for activities
	warnedIdle bool

	paused, parked time.Time // the last times at which each kind of hold began
}

// snapshot queries the state of a run for display. The result has no activities and times.
type snapshot func(context.Context, *Follower) (progress.Snapshot, error)

// ErrParked is the error of Follow for a parked run if the output is not a terminal.
var ErrParked = errors.New("parked")

// Follow shows a run while wait waits for its end. It returns early with ErrParked, or if
// no worker can answer.
func Follow[R any](ctx context.Context, conn *hall.Connection, run Run, d progress.Display, s snapshot, wait func(context.Context) (R, error)) (R, error) {
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
				if f.run.Running() {
					f.run.Closed = time.Now()
				}
				_ = f.show(ctx) // the result is known without the last event
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

// show queries the state and shows it. It returns an error only if further queries cannot succeed.
func (f *Follower) show(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.describe(asking)
	s, err := f.snapshot(asking, f)
	if err != nil {
		if ctx.Err() != nil || time.Since(f.answered) < patience {
			return nil
		}
		return f.diagnose(ctx)
	}
	f.answered, f.warnedIdle = time.Now(), false
	s.Offline, s.Started, s.Elapsed, s.Now = f.run.Offline, f.run.Started, f.run.Elapsed(), time.Now()
	if f.run.Running() {
		s.Activities, s.State = f.run.Activities, f.run.Counting(s.State)
	}
	progress.Since(s.Holds, f.paused, f.parked)
	f.display.Show(s)
	if !f.conn.Interactive() && slices.ContainsFunc(s.Holds, func(h progress.Hold) bool { return h.Parked }) {
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

// describe refreshes the activities every DescribeInterval and ignores failures.
func (f *Follower) describe(ctx context.Context) {
	if !f.run.Running() || time.Since(f.described) < DescribeInterval {
		return
	}
	if run, err := describe(ctx, f.conn, f.run.Workflow, f.run.Kind); err == nil {
		f.run.Activities, f.run.Spent, f.described = run.Activities, run.Spent, time.Now()
	}
}

// diagnose determines why no worker answers. It reports each silence of other processes'
// workers once.
func (f *Follower) diagnose(ctx context.Context) error {
	if f.conn.StackEnded() {
		return errors.New("the local stack has ended; its log is " + f.conn.Stack.LogFile)
	}
	if f.conn.Polls(f.run.queue(f.conn)) || f.warnedIdle {
		return nil
	}
	if why, _ := f.conn.Silence(ctx, f.run.queue(f.conn)); why != "" {
		f.warnedIdle = true
		f.display.Note(why)
	}
	return nil
}

// Holds returns the reasons why a workflow waits for a person, each with the command that
// releases it. Parked is nil unless the run is parked; onRetry describes the effect of
// retry.
func Holds(c *hall.CLI, workflow string, paused bool, parked *string, onRetry string) []progress.Hold {
	const maxParked = 300 // longest text in bytes: every failed agent has a row of its own
	var holds []progress.Hold
	if paused {
		holds = append(holds, progress.Hold{Why: "paused by a person", Release: "`" + c.CommandLine("resume", workflow) + "` resumes it"})
	}
	if parked != nil {
		_, why, _ := strings.Cut(*parked, ": ") // text without the remedies: Release has the commands
		holds = append(holds, progress.Hold{
			Why:     "parked: " + text.Truncate(why, maxParked),
			Release: "`" + c.CommandLine("retry", workflow) + "` " + onRetry,
			Parked:  true,
		})
	}
	return holds
}
