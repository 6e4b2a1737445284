package attempt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
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
	err := a.run(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	if a.Spec.Dir == nil { // time ran out before it was assembled
		if err := a.assemble(ctx); err != nil {
			return errors.Join(late, err)
		}
	}
	if err := a.find(ctx); !errors.Is(err, artifact.ErrNotFound) {
		return err
	}
	return late
}

// concludeDead ends a step whose attempts timed out without progress, unless one committed an
// action.
func (a *Attempt) concludeDead(ctx context.Context) error {
	if err := a.assemble(ctx); err != nil {
		return err
	}
	err := a.find(ctx)
	if errors.Is(err, artifact.ErrNotFound) {
		if r, recoverErr := step.Recover(ctx, a.Ports, a.Spec); recoverErr == nil {
			a.Result = r // more recent than the heartbeats
		}
		return &noProgressError{attempts: maxFruitless}
	}
	return err
}

// find reads the step's committed action. It may return artifact.ErrNotFound.
func (a *Attempt) find(ctx context.Context) error {
	found, err := step.Find(ctx, a.Ports, a.Spec)
	if err != nil {
		a.Result.Step = max(a.Result.Step, found.Step)
		return err
	}
	a.Result = found
	return nil
}

// KeepTranscript stores the transcript of a step that ended without an action, and deletes its
// journal.
func (a *Attempt) KeepTranscript(ctx context.Context) {
	a.Leave(ctx)
	step.Forget(ctx, a.Ports.Store, a.Spec.Layout.Journals(a.Spec.Token))
}

// Leave stores the transcript and the files of a step that is resumed later. It only logs a
// failure, since a retry of the step would cost more.
func (a *Attempt) Leave(ctx context.Context) {
	if err := step.Leave(ctx, a.Ports, a.Spec, a.Result); err != nil {
		activity.GetLogger(ctx).Warn("the transcript of a step without an action was not kept", "step", a.Result.Step, "error", err)
	}
}

// interrupt ends an attempt that the server cancelled, paused or reset. An attempt that an operator
// paused or reset is not counted as one without progress.
func (a *Attempt) interrupt(ctx context.Context, cause error) error {
	if !isHold(cause) {
		return a.cancelled(ctx)
	}
	a.closeDetails(true)
	a.report(ctx)
	return cause
}

// cancelled stores the partial work of a cancelled step and reports its cost to the workflow.
func (a *Attempt) cancelled(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stop()
	// The session waits only briefly, and does not depend on these records.
	switch {
	case a.Spec.Dir == nil: // it was never assembled
	case a.pausing(ctx):
		_ = suspend(ctx, a.Ports, a.Spec, a.Result)
	default:
		_ = step.Abandon(ctx, a.Ports, a.Spec, a.Result, artifact.Error{Type: activities.Cancelled, Message: "the step was cut short"})
	}
	return temporal.NewCanceledError(a.Failure())
}

// suspend records a step that was suspended by a pause. In a session it does not replace the
// agent's last action.
func suspend(ctx context.Context, p step.Ports, s step.Spec, r step.Result) error {
	if s.Abandoned != nil {
		return step.Leave(ctx, p, s, r)
	}
	return step.Abandon(ctx, p, s, r, artifact.Error{Type: activities.Suspended, Message: "the step was suspended; the next one goes on from here"})
}

// pausing reports whether the session is asking its steps to pause.
func (a *Attempt) pausing(ctx context.Context) bool {
	if a.Look == nil {
		return false
	}
	bell, _ := a.Look(ctx) // the call never fails
	return bell.Directive == coordination.Pausing
}

// fail converts the error of an attempt into the error of the activity, and sends the details to
// the next attempt. After maxFruitless attempts without progress the error is final.
func (a *Attempt) fail(ctx context.Context, err error) error {
	c := classify(err)
	if failed, ok := errors.AsType[*llm.Error](err); ok && failed.Outage() {
		var away coordination.Outage
		if c, away = a.waitOut(ctx, c, failed); away != coordination.NoOutage {
			return a.suspendInOutage(ctx, away, err)
		}
	}
	if lack, ok := errors.AsType[*activities.LackError](err); ok && lack.Type != activities.ToolsUnavailable {
		if err = activities.NameHost(err); a.Parks && a.unequipped(ctx) {
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
		return a.abandon(ctx, c, err)
	}
	a.report(ctx)
	return applicationError(err, c, a.Failure())
}

// closeDetails completes the heartbeat details at the end of an attempt and returns the number of
// consecutive attempts without progress. A free attempt is not counted.
func (a *Attempt) closeDetails(free bool) int {
	failure := a.Failure()
	return a.heart.update(func(d *details) {
		d.Failure, d.Doing = failure, nil
		d.Usage.Repeated -= d.Cut // it is added again
		if free && a.counted {
			d.Fruitless--
		}
	}).Fruitless
}

// report sends the details for the next attempt. Errors are ignored.
func (a *Attempt) report(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stop()
	_ = a.heart.report(ctx)
}

// abandon records that the step produced no action. The error is final even if the record cannot be
// stored.
func (a *Attempt) abandon(ctx context.Context, c step.Class, cause error) error {
	if a.Spec.Dir != nil {
		err := step.Abandon(ctx, a.Ports, a.Spec, a.Result, artifact.Error{Type: c.Type, Message: message(cause)})
		cause = errors.Join(cause, err)
	}
	return applicationError(cause, c, a.Failure())
}
