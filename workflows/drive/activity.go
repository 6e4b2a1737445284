package drive

import (
	"cmp"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities/attempt"
)

// payloadTooLarge is the type of the SDK's error for a payload above 2 MB. A retry would fail for
// the same reason.
const payloadTooLarge = "payloadSizeError"

// stepSlack is added to a step's time limit, so that the step can store its partial work.
const stepSlack = 10 * time.Minute

// Fair returns a context whose activities share the fairness key of a team: a server with fairness
// takes the tasks of all keys in turn. Without a team the key of the workflow applies.
func Fair(ctx workflow.Context, team string) workflow.Context {
	if p := Priority(team); p.FairnessKey != "" {
		return workflow.WithPriority(ctx, p)
	}
	return ctx
}

// Priority returns the priority of a team's workflows. It is empty if the name is longer than the
// server accepts as a fairness key, because then it cannot be the name of a team.
func Priority(team string) temporal.Priority {
	const longest = 64 // longest key in bytes
	if len(team) > longest {
		return temporal.Priority{}
	}
	return temporal.Priority{FairnessKey: team}
}

// Bookkeeping returns a context with the options for short activities. They are retried until the
// store is available.
func Bookkeeping(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Minute, // a large workspace over a slow line
		HeartbeatTimeout:    10 * time.Second, // activities.Beat sends heartbeats, so a killed worker is replaced soon
		Summary:             summary,
		Priority:            workflow.GetActivityOptions(ctx).Priority,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        time.Second,
			BackoffCoefficient:     2,
			MaximumInterval:        30 * time.Second,
			NonRetryableErrorTypes: []string{payloadTooLarge},
		},
	})
}

// Preparing is like Bookkeeping, but uses the task queue of steps, whose workers have the teams.
func Preparing(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithTaskQueue(Bookkeeping(ctx, summary), stepsQueue(ctx))
}

// Step returns a context with the options for a step that may run for limit. heartbeat is the
// heartbeat timeout in seconds; 0, as in older histories, means the default. The number of
// attempts has no limit here, because the activity counts them itself. The ID is short, so that it can be typed in `temporal activity …`.
func Step(ctx workflow.Context, id, summary string, limit time.Duration, heartbeat int) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           stepsQueue(ctx),
		StartToCloseTimeout: limit + stepSlack,
		HeartbeatTimeout:    cmp.Or(time.Duration(heartbeat)*time.Second, attempt.HeartbeatTimeout),
		WaitForCancellation: true,
		Summary:             summary,
		Priority:            workflow.GetActivityOptions(ctx).Priority,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        time.Second,
			BackoffCoefficient:     2,
			MaximumInterval:        time.Minute,
			NonRetryableErrorTypes: []string{payloadTooLarge},
		},
	})
}

// hostWait is how long a step waits for the one process that can run it, which may have ended.
const hostWait = 20 * time.Second

// OnHost sends a step to the task queue of a single process.
func OnHost(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithScheduleToStartTimeout(workflow.WithTaskQueue(ctx, queue), hostWait)
}

// HostLost reports whether a step failed because the process to which it was sent did not start it.
func HostLost(ctx workflow.Context, f workflow.Future) bool {
	timeout, ok := errors.AsType[*temporal.TimeoutError](f.Get(ctx, nil))
	return ok && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

func stepsQueue(ctx workflow.Context) string {
	return workflow.GetInfo(ctx).TaskQueueName + StepsSuffix
}
