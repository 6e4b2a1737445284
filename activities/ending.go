package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// recordCut bounds the recording of a step that was cut short.
const recordCut = 5 * time.Second

// lookAgain ends a step whose attempts died without a word, as those of a killed
// worker do, unless one of them had committed before it died.
func (r *stepRun) lookAgain(ctx context.Context) error {
	if err := r.assemble(ctx); err != nil {
		return err
	}
	found, err := step.Find(ctx, r.ports, r.spec)
	if errors.Is(err, artifact.ErrNotFound) {
		r.result.Step = max(r.result.Step, found.Step)
		r.result.Transcript = r.left(ctx)
		return &noProgressError{attempts: MaxFruitless}
	}
	if err == nil {
		r.result = found
	}
	return err
}

// left is the transcript of what the attempts that died had kept, which has been
// paid for.
func (r *stepRun) left(ctx context.Context) []byte {
	if r.result.Step == 0 {
		return nil
	}
	t, err := step.ReadTranscript(ctx, r.ports.Store, r.spec.Layout, r.spec.Dir(r.result.Step))
	if err != nil {
		return nil // the end of the step does not depend on it
	}
	// What was heard of them last lags behind what they kept.
	if kept := t.Usage(); kept.ModelCalls > r.result.Usage.ModelCalls {
		r.result.Usage = kept
	}
	var lines []byte
	for _, l := range t.Lines {
		lines = append(append(lines, l.Raw...), '\n')
	}
	return lines
}

// endedItself keeps what a step had come to that ended without an action. What
// it cost is not to be paid again for the sake of a transcript.
func (r *stepRun) endedItself(ctx context.Context, end *loop.EndedError) StepResult {
	if err := step.Leave(ctx, r.ports, r.spec, r.result); err != nil {
		activity.GetLogger(ctx).Warn("the transcript of a step without an action was not kept", "step", r.result.Step, "error", err)
	}
	step.Forget(ctx, r.ports, r.spec)
	return StepResult{Token: r.token, Step: r.result.Step, Ended: end.Why, Usage: r.result.Usage}
}

// cutShort records what a cancelled step had come to, and tells the workflow
// what it cost. A step that a pause has cut short goes on later: its agent's
// last action is still the one before.
func (r *stepRun) cutShort(ctx context.Context, cause error) error {
	if isHold(cause) {
		return cause
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordCut)
	defer stop()
	// The session does not wait for long, and nothing depends on these records.
	switch {
	case r.spec.Abandoned == nil: // it was not even assembled
	case r.bell != nil && r.bell.pausing(ctx):
		_ = step.Leave(ctx, r.ports, r.spec, r.result)
	default:
		_ = step.Abandon(ctx, r.ports, r.spec, r.result, artifact.Error{Type: Cancelled, Message: "the step was cut short"})
	}
	return temporal.NewCanceledError(r.failure())
}

// held takes an attempt that an operator paused or reset out of those without
// progress.
func (a *Activities) held(ctx context.Context, run *stepRun, h *heart) {
	h.write(func(v *vitals) {
		v.StepFailure = run.failure()
		if run.counted {
			v.Fruitless--
		}
	})
	_ = h.report(context.WithoutCancel(ctx)) // if it is lost, so is one uncounted attempt
}

// fail turns the error of an attempt into the activity's, and tells the next
// attempt what it must know.
func (a *Activities) fail(ctx context.Context, run *stepRun, h *heart, err error) error {
	c := classify(err)
	h.write(func(v *vitals) {
		v.StepFailure = run.failure()
		if c.Free && run.counted {
			v.Fruitless--
		}
	})
	if !c.Final && !c.Free && h.read().Fruitless >= MaxFruitless {
		err = fmt.Errorf("%d attempts without progress, the last: %w", MaxFruitless, err)
		c.Final = true
	}
	if c.Final {
		return run.abandon(ctx, c, err)
	}
	// If the report is lost, so is one uncounted attempt, no more.
	_ = h.report(context.WithoutCancel(ctx))
	return applicationError(err, c, run.failure())
}

// abandon records that the step came to nothing and returns its final error. A
// store that is down must not turn a final error into a retried one.
func (r *stepRun) abandon(ctx context.Context, c step.Class, cause error) error {
	if r.spec.Abandoned != nil {
		err := step.Abandon(ctx, r.ports, r.spec, r.result, artifact.Error{Type: c.Type, Message: message(cause)})
		cause = errors.Join(cause, err)
	}
	return applicationError(cause, c, r.failure())
}
