package activities

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
)

// Claimed records the session or run that a workflow has claimed. It lets a client resume the
// workflow by its ID, which may differ from the ID of the session or run.
type Claimed struct {
	WorkflowID string `json:"workflow_id"`
	ID         string `json:"id"`
	Scenario   string `json:"scenario,omitempty"` // the scenario's slug
}

// Keep stores the record, replacing that of an earlier session or run of the workflow.
func (c Claimed) Keep(ctx context.Context, store artifact.Store) error {
	if err := artifact.PutJSON(ctx, store, artifact.WorkflowKey(c.WorkflowID), c); err != nil {
		return fmt.Errorf("noting what workflow %s has claimed: %w", c.WorkflowID, err)
	}
	return nil
}

// ClaimedBy returns the record of a workflow. If it is missing, the session or run has the
// workflow's ID.
func ClaimedBy(ctx context.Context, store artifact.Store, workflow string) (Claimed, error) {
	c, err := artifact.ReadJSON[Claimed](ctx, store, artifact.WorkflowKey(workflow))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return Claimed{WorkflowID: workflow, ID: workflow}, nil
	case err != nil:
		return c, fmt.Errorf("finding what workflow %s has claimed: %w", workflow, err)
	}
	return c, nil
}
