package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/coordination"
	"conclave/engine/llm"
)

// Invalid returns the error for an input that cannot start a run.
func Invalid(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), InvalidInput, nil)
}

// Failure is the end of a step that has no result.
type Failure struct {
	attempt.Failure // step, token and usage; a zero step or usage is unknown

	Suspended  bool // the step was cancelled and can be resumed
	Unreported bool // the step number and the usage are unknown or outdated
	Cause      coordination.Failure
}

// Await returns the result of a step's activity in result. It returns a Failure if the step failed,
// was suspended, or was completed by an operator; in the last case the result has no execution
// token and no files in the store.
func Await(ctx workflow.Context, f workflow.Future, launch string, cancelled bool, result any, token func() string) *Failure {
	const uuid = 36 // characters of a run ID
	run := workflow.GetInfo(ctx).WorkflowExecution.RunID
	if err := f.Get(ctx, result); err != nil {
		failure := FailureOf(err, run+"-"+launch, cancelled)
		return &failure
	}
	// After a reset, results may come from another run, of whose ID only the length is known.
	if of, found := strings.CutSuffix(token(), "-"+launch); found && (of == run || len(of) == uuid) {
		return nil
	}
	return &Failure{Failure: attempt.Failure{Token: run + "-" + launch}, Unreported: true, Cause: coordination.Failure{
		Type:    "CompletedByHand",
		Message: "the activity was completed from outside with a result that no step produced",
	}}
}

// FailureOf converts the final error of a step. token is used if the error does not contain one.
func FailureOf(err error, token string, cancelled bool) Failure {
	failure := Failure{Suspended: cancelled || temporal.IsCanceledError(err), Cause: causeOf(err)}
	// If the details have another type, the usage remains unknown.
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok && application.HasDetails() {
		_ = application.Details(&failure.Failure)
	} else if cancelled, ok := errors.AsType[*temporal.CanceledError](err); ok && cancelled.HasDetails() {
		_ = cancelled.Details(&failure.Failure)
	} else if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok && timeout.HasLastHeartbeatDetails() {
		_ = timeout.LastHeartbeatDetails(&failure.Failure)
	}
	_, timedOut := errors.AsType[*temporal.TimeoutError](err)
	failure.Unreported = timedOut || failure.Token == "" || failure.Step == 0
	failure.Token = cmp.Or(failure.Token, token)
	return failure
}

func causeOf(err error) coordination.Failure {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return coordination.Failure{Type: cmp.Or(application.Type(), "FailedByHand"), Message: application.Message()}
	}
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return coordination.Failure{Type: "Timeout", Message: timeout.Error()}
	}
	return coordination.Failure{Type: "Unknown", Message: err.Error()}
}

// CanceledError returns the error with which a cancelled workflow ends. It contains the usage, for
// the workflow of a pipeline, and the result, for clients (see CanceledResult).
func CanceledError(usage llm.Usage, result any) error {
	return temporal.NewCanceledError(attempt.Failure{Usage: usage}, result)
}

// CanceledResult decodes the result of a cancelled workflow into a pointer to a zero value. It returns false
// if the error contains no result, for example because the workflow was cancelled before it was prepared.
func CanceledResult(err error, result any) bool {
	cancelled, ok := errors.AsType[*temporal.CanceledError](err)
	if !ok || !cancelled.HasDetails() {
		return false
	}
	var failure attempt.Failure
	return cancelled.Details(&failure, result) == nil && !reflect.ValueOf(result).Elem().IsZero()
}

// FinalError converts the error of an activity into the error with which the workflow fails.
func FinalError(err error) error {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return temporal.NewNonRetryableApplicationError(application.Message(), application.Type(), nil)
	}
	return err
}

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
