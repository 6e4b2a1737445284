package drive

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/coordination"
)

// Reckoning is an activity that reads the end of a step from the store because the step did not
// report it. The event for the end is delayed until the activity's result arrives.
type Reckoning struct {
	Future  workflow.Future
	failure Failure
}

// Ended returns the end of a step as input for its reckoning. suspended is true if the step will be
// resumed; awaySince is that of its launch.
func (f Failure) Ended(suspended bool, awaySince time.Time) attempt.Ended {
	e := attempt.Ended{Token: f.Token, Suspended: suspended, Cause: f.Cause, AwaySince: awaySince}
	if f.Suspended {
		e.Cause = coordination.Failure{Type: activities.Cancelled, Message: "the step was cut short"}
	}
	return e
}

// Lost returns the end of a step that was not reported in time.
func Lost(ctx workflow.Context, launch string) Failure {
	run := workflow.GetInfo(ctx).WorkflowExecution.RunID
	return Failure{Failure: attempt.Failure{Token: run + "-" + launch}, Suspended: true, Unreported: true}
}

// Reckon starts the reckoning of a failure. The reckoning continues if the run is cancelled.
func Reckon(ctx workflow.Context, f Failure, step string, activity, input any) *Reckoning {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	detached = Bookkeeping(detached, "count the usage of "+step)
	return &Reckoning{Future: workflow.ExecuteActivity(detached, activity, input), failure: f}
}

// End returns the completed failure once Future is ready.
func (r *Reckoning) End(ctx workflow.Context) Failure {
	var found attempt.Failure
	if err := r.Future.Get(ctx, &found); err != nil {
		workflow.GetLogger(ctx).Error("the usage of a step is unknown", "token", r.failure.Token, "error", err)
		return r.failure
	}
	f := r.failure
	f.Step, f.Token, f.AwaySince = max(f.Step, found.Step), found.Token, found.AwaySince
	if found.Usage.ModelCalls > f.Usage.ModelCalls { // otherwise the last heartbeat is newer
		f.Usage = found.Usage
	}
	if len(found.Seen) > 0 {
		f.Seen = found.Seen
	}
	return f
}

// Time limits for cancelled steps to report their ends, and for the reckoning of those that do not.
const (
	endGrace    = 10 * time.Second
	reckonGrace = 20 * time.Second
)

// AwaitCancelled waits until cancelled steps have reported their usage. add adds the futures of
// running steps to a selector and reports whether there are any. After ten seconds it calls lost,
// which starts the reckoning of the remaining steps and reports whether there are any.
func AwaitCancelled(ctx workflow.Context, add func(workflow.Selector) bool, lost func() bool) {
	if awaitEnds(ctx, endGrace, add) || ctx.Err() != nil || !lost() {
		return
	}
	awaitEnds(ctx, reckonGrace, add)
}

// awaitEnds waits for the ends of all steps, and reports whether they came in time.
func awaitEnds(ctx workflow.Context, grace time.Duration, add func(workflow.Selector) bool) bool {
	selector := workflow.NewSelector(ctx)
	if !add(selector) {
		return true
	}
	timer, stop := workflow.WithCancel(ctx)
	defer stop()
	timeout := workflow.NewTimerWithOptions(timer, grace, workflow.TimerOptions{Summary: "for cancelled steps to end"})
	for over := false; ; {
		selector.AddFuture(timeout, func(workflow.Future) { over = true })
		selector.Select(ctx)
		if over || ctx.Err() != nil {
			return false
		}
		if selector = workflow.NewSelector(ctx); !add(selector) {
			return true
		}
	}
}
