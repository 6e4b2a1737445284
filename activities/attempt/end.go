package attempt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// recordTimeout bounds the recording of an interrupted step.
const recordTimeout = 5 * time.Second

// stepTimeError reports a step that exceeded its time limit.
type stepTimeError struct{ limit time.Duration }

func (e *stepTimeError) Error() string {
	return fmt.Sprintf("the step's time of %s was over before it came to an end", e.limit)
}

// Is makes the error a deadline, after which no attempt follows.
func (*stepTimeError) Is(target error) bool { return target == context.DeadlineExceeded }

// runInTime runs the step within its time limit. An attempt that starts after the limit still finds
// the commit of an earlier one.
func (a *Attempt) runInTime(ctx context.Context) error {
	late := &stepTimeError{a.limit}
	limited, stop := context.WithDeadlineCause(ctx, a.details.Began.Add(a.limit), late)
	defer stop()
	err := a.runStep(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	if a.Spec.Dir == nil { // time ran out before it was assembled
		if err := a.assemble(ctx); err != nil {
			return errors.Join(late, err)
		}
	}
	if err := a.findCommit(ctx); !errors.Is(err, artifact.ErrNotFound) {
		return err
	}
	return late
}

// concludeDead ends a step whose attempts timed out without progress, unless one committed an action.
func (a *Attempt) concludeDead(ctx context.Context) error {
	if err := a.assemble(ctx); err != nil {
		return err
	}
	err := a.findCommit(ctx)
	if errors.Is(err, artifact.ErrNotFound) {
		a.recoverResult(ctx)
		return &noProgressError{attempts: maxFruitless}
	}
	return err
}

// recoverResult reads from the store how far earlier attempts have come: their heartbeats may not have told all.
func (a *Attempt) recoverResult(ctx context.Context) {
	if r, err := step.Recover(ctx, a.Ports, a.Spec); err == nil {
		a.Result = r
		a.noteProgress(step.Progress{Step: r.Step, Usage: r.Usage})
	}
}

// findCommit reads the step's committed action. It may return artifact.ErrNotFound.
func (a *Attempt) findCommit(ctx context.Context) error {
	found, err := step.Find(ctx, a.Ports, a.Spec)
	if err != nil {
		a.Result.Step = max(a.Result.Step, found.Step)
		return err
	}
	a.Result = found
	return nil
}

// Leave stores the transcript and the files of a step that ended without an action. Its journal stays: if this end is
// not reported, the next attempt ends in the same way. Leave only logs a failure, since a retry of the step would cost more.
func (a *Attempt) Leave(ctx context.Context) {
	if err := step.Leave(ctx, a.Ports, a.Spec, a.Result); err != nil {
		activity.GetLogger(ctx).Warn("the transcript of a step without an action was not kept", "step", a.Result.Step, "error", err)
	}
}

// endInterrupted ends an attempt that the server cancelled, paused or reset. An attempt that an operator
// paused or reset is not counted as one without progress.
func (a *Attempt) endInterrupted(ctx context.Context, cause error) error {
	if !isHold(cause) {
		return a.endCancelled(ctx)
	}
	a.closeDetails(true)
	a.sendDetails(ctx)
	return cause
}

// endCancelled stores the partial work of a cancelled step and reports its cost to the workflow.
func (a *Attempt) endCancelled(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stop()
	if a.Number > 1 && a.Spec.Dir != nil && len(a.Result.Transcript) == 0 { // it has not read the journal
		a.recoverResult(ctx)
	}
	// The session waits only briefly, and does not depend on these records.
	switch {
	case a.Spec.Dir == nil: // it was never assembled
	case a.isPausing(ctx):
		_ = recordSuspended(ctx, a.Ports, a.Spec, a.Result)
	default:
		_ = step.Abandon(ctx, a.Ports, a.Spec, a.Result, artifact.Error{Type: activities.Cancelled, Message: "the step was cut short"})
	}
	failure := a.Failure()
	if a.Result.Commit.Kind != "" { // of an attempt that did not report it: a step without a number is reckoned
		failure.Step = 0
	}
	return temporal.NewCanceledError(failure)
}

// recordSuspended records a step that was suspended by a pause. In a session it does not replace the
// agent's last action.
func recordSuspended(ctx context.Context, p step.Ports, s step.Spec, r step.Result) error {
	if s.Abandoned != nil {
		return step.Leave(ctx, p, s, r)
	}
	return step.Abandon(ctx, p, s, r, artifact.Error{Type: activities.Suspended, Message: "the step was suspended; the next one goes on from here"})
}

func (a *Attempt) isPausing(ctx context.Context) bool {
	bell, _ := a.Look(ctx) // the call never fails
	return bell.Directive == coordination.Pausing
}

// endFailed converts the error of an attempt into the error of the activity, and sends the details to
// the next attempt. After maxFruitless attempts without progress the error is final.
func (a *Attempt) endFailed(ctx context.Context, err error) error {
	c := classOf(err)
	if failed, ok := errors.AsType[*llm.Error](err); ok && failed.Outage() {
		var away coordination.Outage
		if c, away = a.waitOut(ctx, c, failed); away != coordination.NoOutage {
			return a.suspendInOutage(ctx, away, err)
		}
	}
	if lack, ok := errors.AsType[*activities.LackError](err); ok && lack.Type != activities.ToolsUnavailable {
		c.After = min(c.After, time.Duration(a.Number)*time.Second) // a better equipped worker may take it at once
		if err = activities.NameHost(err); a.Parks && a.lacksEverywhere(ctx) {
			return a.suspendAway(ctx, coordination.Unreached, activities.Unequipped, err)
		}
	}
	a.markOutage(ctx)
	fruitless := a.closeDetails(c.Free)
	if !c.Final && !c.Free && fruitless >= maxFruitless {
		err = fmt.Errorf("%d attempts without progress, the last: %w", maxFruitless, err)
		c.Final = true
	}
	if c.Final {
		return a.recordAbandoned(ctx, c, err)
	}
	a.sendDetails(ctx)
	return applicationError(err, c, a.Failure())
}

// closeDetails completes the heartbeat details at the end of an attempt and returns the number of
// consecutive attempts without progress. A free attempt is not counted.
func (a *Attempt) closeDetails(free bool) int {
	failure := a.Failure()
	return a.heart.updateDetails(func(d *details) {
		d.Failure, d.Doing = failure, nil
		d.Usage.Repeated -= d.Cut // it is added again
		if free && a.counted {
			d.Fruitless--
		}
	}).Fruitless
}

func (a *Attempt) sendDetails(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stop()
	_ = a.heart.reportDetails(ctx)
}

// recordAbandoned records that the step produced no action. The error is final even if the record cannot be
// stored.
func (a *Attempt) recordAbandoned(ctx context.Context, c step.Class, cause error) error {
	if a.Spec.Dir != nil {
		err := step.Abandon(ctx, a.Ports, a.Spec, a.Result, artifact.Error{Type: c.Type, Message: textOf(cause)})
		cause = errors.Join(cause, err)
	}
	return applicationError(cause, c, a.Failure())
}

// noProgressError reports a step whose attempts timed out without progress.
type noProgressError struct{ attempts int }

func (e *noProgressError) Error() string {
	return fmt.Sprintf("%d attempts died without progress", e.attempts)
}

// Delays before retries that another worker may take.
const (
	stopDelay  = time.Second     // time until another worker may be up
	fenceDelay = 2 * time.Second // time until the server may be less busy
	lagDelay   = time.Second     // time until another worker may take the step
)

// maxSpread bounds the random part of a delay, which keeps the steps of a worker from retrying all at once.
const maxSpread = 5 * time.Second

func spreadDelay(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return d + rand.N(min(d, maxSpread))
}

func classOf(err error) step.Class {
	if carried, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return step.Class{Type: carried.Type(), Final: carried.NonRetryable()}
	}
	if class, ok := step.Classify(err); ok {
		return class
	}
	if lack, ok := errors.AsType[*activities.LackError](err); ok {
		if lack.Type == activities.ToolsUnavailable {
			return step.Class{Type: lack.Type}
		}
		return step.Class{Type: lack.Type, Free: true, After: activities.LackDelay}
	}
	switch {
	case step.Wraps[*stepTimeError](err):
		return step.Class{Type: step.TimeOver, Final: true}
	case step.Wraps[*noProgressError](err):
		return step.Class{Type: "NoProgress", Final: true}
	case errors.Is(err, errStopped):
		return step.Class{Type: "WorkerStopped", Free: true, After: stopDelay}
	case errors.Is(err, errFenced):
		return step.Class{Type: step.Fenced, Free: true, After: fenceDelay}
	case errors.Is(err, errLagging):
		return step.Class{Type: "WorkerLagging", Free: true, After: lagDelay}
	case step.Wraps[*artifact.StoreError](err): // attempts wait for the end of an outage
		return step.Class{Type: step.Storage, Free: true}
	default:
		return step.Class{Type: activities.Internal}
	}
}

func applicationError(err error, c step.Class, details ...any) error {
	after := c.After
	if !step.Wraps[*llm.Error](err) { // a model's server sets the delay
		after = spreadDelay(after)
	}
	options := temporal.ApplicationErrorOptions{NonRetryable: c.Final, NextRetryDelay: after, Cause: err, Details: details}
	if c.Free {
		options.Category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(textOf(err), c.Type, options)
}

// Error converts an error that occurred after the step completed into the error of the activity.
func (a *Attempt) Error(err error) error { return applicationError(err, classOf(err), a.Failure()) }

// textOf returns an error's text without the SDK's additions to its own errors.
func textOf(err error) string {
	if carried, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return carried.Message()
	}
	return err.Error()
}

// endedByServer reports whether the server ended the activity: it was cancelled, paused or reset.
func endedByServer(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return cause != nil && errors.Is(err, cause) && (isCancel(cause) || isHold(cause))
}

// isCancel reports whether cause is a cancellation, which the SDK delivers or a heartbeat returns.
func isCancel(cause error) bool {
	return errors.Is(cause, context.Canceled) || temporal.IsCanceledError(cause)
}

func isHold(cause error) bool {
	return errors.Is(cause, activity.ErrActivityPaused) || errors.Is(cause, activity.ErrActivityReset)
}
