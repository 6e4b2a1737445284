package attempt

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"conclave/engine/coordination"
)

// bellTimeout bounds how long a safe point waits for the server.
const bellTimeout = 2 * time.Second

// doorbell reads the memo of a step's workflow. It is used by one goroutine at a
// time.
type doorbell struct {
	read     func(ctx context.Context, workflowID, runID string) (coordination.Ring, error)
	workflow workflow.Execution

	last coordination.Ring
}

// look is called at safe points: before every model call and before an action
// counts. It never fails; a server that does not answer leaves the last bell.
func (d *doorbell) look(ctx context.Context) (coordination.Ring, error) {
	limited, stop := context.WithTimeout(ctx, bellTimeout)
	defer stop()
	bell, err := d.read(limited, d.workflow.ID, d.workflow.RunID)
	if err != nil {
		activity.GetLogger(ctx).Debug("the doorbell could not be read; nothing is new until the next look", "error", err)
		return d.last, nil
	}
	d.last = bell
	return bell, nil
}
