package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
)

// A payload of more than 2 MB cannot be in a history; an attempt that produced
// one would be repeated, and paid for, for ever.
const payloadTooLarge = "payloadSizeError"

// bookkeeping is for the short activities that only talk to the store: they are
// tried until the store is back, since nothing can go on without them.
func bookkeeping(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Minute, // a large workspace over a slow line
		HeartbeatTimeout:    activities.BookkeepingTimeout,
		Summary:             summary,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        time.Second,
			BackoffCoefficient:     2,
			MaximumInterval:        30 * time.Second,
			NonRetryableErrorTypes: []string{payloadTooLarge},
		},
	})
}

// stepSlack is what a step may take beyond the session's time, to be cancelled
// and to store what it has.
const stepSlack = 10 * time.Minute

// preparing is for Prepare, which needs the teams that only workers of steps have.
func preparing(ctx workflow.Context) workflow.Context {
	return workflow.WithTaskQueue(bookkeeping(ctx, "resolve the team, claim the session's directory"), stepsQueue(ctx))
}

func stepsQueue(ctx workflow.Context) string {
	return workflow.GetInfo(ctx).TaskQueueName + StepsSuffix
}

// steps is for RunStep, whose attempts are counted by the activity itself: a
// rate limit or a shutdown is not a failure, three attempts without progress are.
func steps(ctx workflow.Context, summary string, session time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           stepsQueue(ctx),
		StartToCloseTimeout: session + stepSlack,
		HeartbeatTimeout:    activities.HeartbeatTimeout,
		WaitForCancellation: true,
		Summary:             summary,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        time.Second,
			BackoffCoefficient:     2,
			MaximumInterval:        time.Minute,
			NonRetryableErrorTypes: []string{payloadTooLarge},
		},
	})
}
