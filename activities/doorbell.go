package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/step"
)

// bellPatience is how long a safe point waits for the server.
const bellPatience = 2 * time.Second

// doorbell is the session's memo as one running step reads it. A server that
// does not say is no fault of the step: then there is nothing new. It is used by
// one goroutine at a time.
type doorbell struct {
	read     func(ctx context.Context, workflowID, runID string) (step.Bell, error)
	workflow workflow.Execution

	bell step.Bell // what was heard last
}

// look is asked at safe points, before every model call and before an action
// counts. It never fails.
func (d *doorbell) look(ctx context.Context) (step.Bell, error) {
	asking, stop := context.WithTimeout(ctx, bellPatience)
	defer stop()
	bell, err := d.read(asking, d.workflow.ID, d.workflow.RunID)
	if err != nil {
		activity.GetLogger(ctx).Debug("the doorbell was not heard; nothing is new until it is asked again", "error", err)
		return d.bell, nil
	}
	d.bell = bell
	return bell, nil
}

// messages is how many human messages a run of a pipeline has.
func (d *doorbell) messages(ctx context.Context) (int, error) {
	bell, err := d.look(ctx)
	return len(bell.Messages), err
}

// pausing reports whether the session asks its steps to pause at this moment.
func (d *doorbell) pausing(ctx context.Context) bool {
	bell, _ := d.look(ctx) // it never fails
	return bell.Directive == step.Pausing
}
