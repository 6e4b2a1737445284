package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

const (
	// PollInterval is the interval of queries for a followed run's state.
	PollInterval = 250 * time.Millisecond
	// describeInterval is the interval of requests for the pending activities.
	describeInterval = 3 * time.Second
	// patience is how long queries may fail before Follow looks for the cause.
	patience = 3 * time.Second
)

// Follower shows a run until it ends.
type Follower struct {
	conn     *hall.Connection
	run      Run
	display  progress.Display
	snapshot snapshot

	shown      int       // events shown
	answered   time.Time // when a worker last answered
	described  time.Time // when the server was last asked for delays
	warnedIdle bool
}

// snapshot queries the state of a run for display, without delays and the elapsed time.
type snapshot func(context.Context, *Follower) (progress.Snapshot, error)

// ErrParked ends the following of a parked run where there is no terminal.
var ErrParked = errors.New("parked")

// Follow shows a run while wait waits for its end. It returns early if no worker can ever
// answer, or with ErrParked.
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

// show queries and shows the state. An error means that further queries cannot succeed.
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
	f.answered = time.Now()
	s.Offline, s.Started, s.Elapsed, s.Delays = f.run.Offline, f.run.Started, f.run.Elapsed(), f.delays()
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

// Behind reports whether a run with this many events has some that are not shown.
func (f *Follower) Behind(events int) bool { return events > f.shown }

// News returns the events that have not been shown, and the number of lost ones before them.
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

// describe refreshes the delays at each describeInterval, and ignores failures.
func (f *Follower) describe(ctx context.Context) {
	if !f.run.Running() || time.Since(f.described) < describeInterval {
		return
	}
	if run, err := describe(ctx, f.conn, f.run.Workflow, f.run.Kind); err == nil {
		f.run.Delays, f.described = run.Delays, time.Now()
	}
}

// delays returns the last known delays, as of now.
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

// diagnose finds the reason why no worker answers. On a cluster it notes the reason once.
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

// Holds returns the reasons why a workflow waits for a person, each with the command that
// releases it. Parked is nil unless the run is parked; onRetry names the effect of retry.
func Holds(c *hall.CLI, workflow string, paused bool, parked *string, onRetry string) []progress.Hold {
	const maxParked = 300 // in bytes: every failed agent has a row of its own
	var holds []progress.Hold
	if paused {
		holds = append(holds, progress.Hold{Why: "paused by a person", Release: "`" + c.CommandLine("resume", workflow) + "` resumes it"})
	}
	if parked != nil {
		holds = append(holds, progress.Hold{
			Why:     "parked: " + text.Truncate(*parked, maxParked),
			Release: "`" + c.CommandLine("retry", workflow) + "` " + onRetry,
			Parked:  true,
		})
	}
	return holds
}

const (
	// queueTime is how long a step may wait for a worker before that is reported.
	queueTime = 10 * time.Second
	// maxFailure is how much of a failure's message is shown, in bytes.
	maxFailure = 160
)

// delaysOf returns the pending activities that make no progress, sorted by name.
func delaysOf(pending []*workflowpb.PendingActivityInfo, now time.Time) []progress.Delay {
	var delays []progress.Delay
	for _, a := range pending {
		d, delayed := delayOf(a, now)
		if !delayed {
			continue
		}
		if isStep(a) {
			// The activity ID is the agent's or the pipeline step's, a hyphen, and the launch's.
			if i := strings.LastIndexByte(a.GetActivityId(), '-'); i > 0 {
				d.Agent = a.GetActivityId()[:i]
			}
		} else {
			d.Work = a.GetActivityType().GetName()
		}
		delays = append(delays, d)
	}
	slices.SortStableFunc(delays, func(a, b progress.Delay) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Work, b.Work))
	})
	return delays
}

// isStep reports whether an activity is a step of an agent or of a pipeline.
func isStep(a *workflowpb.PendingActivityInfo) bool {
	name := a.GetActivityType().GetName()
	return name == "RunStep" || name == "RunSegment"
}

// delayOf returns the reason why an activity makes no progress, if there is one.
func delayOf(a *workflowpb.PendingActivityInfo, now time.Time) (d progress.Delay, delayed bool) {
	failed := ""
	if a.GetAttempt() > 1 && a.GetLastFailure() != nil {
		failed = fmt.Sprintf("attempt %d, %s", a.GetAttempt(), describeFailure(a.GetLastFailure()))
	}
	switch a.GetState() {
	case enumspb.PENDING_ACTIVITY_STATE_STARTED, enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
		alive := a.GetLastStartedTime().AsTime()
		if beat := a.GetLastHeartbeatTime(); beat != nil && beat.AsTime().After(alive) {
			alive = beat.AsTime()
		}
		if timeout := heartbeatTimeout(a); isStep(a) && now.Sub(alive) > timeout*6/10 { // two heartbeats are missing
			return progress.Delay{
				Why:  "its worker is gone; the step is given to another",
				Next: max(alive.Add(timeout).Sub(now), time.Second),
			}, true
		}
		return progress.Delay{Why: failed}, failed != ""
	case enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:
		due := a.GetScheduledTime().AsTime()
		if next := a.GetNextAttemptScheduleTime(); next != nil {
			due = next.AsTime()
		}
		switch {
		case failed != "":
			return progress.Delay{Why: failed + "; again", Next: due.Sub(now)}, true
		case now.Sub(due) > queueTime:
			return progress.Delay{Why: "no worker has taken it yet: none has room, or none runs"}, true
		}
	}
	return progress.Delay{}, false
}

// heartbeatTimeout is that of a pending activity.
func heartbeatTimeout(a *workflowpb.PendingActivityInfo) time.Duration {
	return cmp.Or(a.GetActivityOptions().GetHeartbeatTimeout().AsDuration(), attempt.HeartbeatTimeout)
}

const workerLost = "the worker of the last one was lost"

// describeFailure returns the type and the shortened message of an attempt's failure.
func describeFailure(f *failurepb.Failure) string {
	switch {
	case f.GetTimeoutFailureInfo() != nil:
		if f.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			return workerLost
		}
		return "the last one ran out of time"
	case f.GetApplicationFailureInfo().GetType() != "":
		if f.GetApplicationFailureInfo().GetType() == activities.WorkerLost {
			return workerLost
		}
		return f.GetApplicationFailureInfo().GetType() + ": " + text.Truncate(progress.Line(f.GetMessage()), maxFailure)
	}
	return text.Truncate(progress.Line(f.GetMessage()), maxFailure)
}
