package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/step"
)

// stepTimeError says that a step did not come to an action in its time.
type stepTimeError struct{ limit time.Duration }

func (e *stepTimeError) Error() string {
	return fmt.Sprintf("the step's time of %s was over before it came to an end", e.limit)
}

// carryOutInTime is carryOut within the step's time, if it has one. An attempt that
// comes too late finds what an earlier one has committed.
func (r *stepRun) carryOutInTime(ctx context.Context) error {
	if r.limit == 0 {
		return r.carryOut(ctx)
	}
	late := &stepTimeError{r.limit}
	limited, stop := context.WithDeadlineCause(ctx, r.vitals.Began.Add(r.limit), late)
	defer stop()
	err := r.carryOut(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	if r.spec.Dir == nil { // it was not even assembled
		if err := r.assemble(ctx); err != nil {
			return errors.Join(late, err)
		}
	}
	found, err := step.Find(ctx, r.ports, r.spec)
	if err == nil {
		r.result = found
		return nil
	}
	r.result.Step = max(r.result.Step, found.Step)
	if !errors.Is(err, artifact.ErrNotFound) {
		return err
	}
	return late
}
