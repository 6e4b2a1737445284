package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/engine/files/artifact"
)

// Owned reads the claim of an ended session or run that the workflow of its owner continues.
// subject names it in errors; input is the kind of input that would start a new one.
func Owned[T interface{ OwnedBy() artifact.Owner }](ctx context.Context, store artifact.Store, key, workflow, subject, input string) (T, error) {
	claim, err := artifact.ReadJSON[T](ctx, store, key)
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return claim, Invalid(fmt.Errorf("there is no %s to go on with: give %s instead of resume", subject, input))
	case err == nil && claim.OwnedBy().WorkflowID != workflow:
		err = Taken("%s belongs to workflow %s: resume it under that ID", subject, claim.OwnedBy().WorkflowID)
	}
	return claim, err
}

// stateFormat is the format of state.json. States in other formats are ignored.
const stateFormat = 3

// SavedState is runs/<run>/state.json: the state of a session or pipeline, which a run of its workflow
// saves with each record.
type SavedState[S any] struct {
	Format int       `json:"format"`
	Run    string    `json:"run"`
	At     time.Time `json:"at"`    // when the server scheduled the record: the clocks of workers differ
	Saved  *S        `json:"saved"` // nil if nothing was saved
}

// SaveState writes the state of the activity's workflow run.
func SaveState[S any](ctx context.Context, store artifact.Store, layout artifact.Layout, saved *S) error {
	info := activity.GetInfo(ctx)
	state := SavedState[S]{Format: stateFormat, Run: info.WorkflowExecution.RunID, At: artifact.Timestamp(info.ScheduledTime), Saved: saved}
	return artifact.PutJSON(ctx, store, layout.SavedState(state.Run), state)
}

// LastState returns the newest saved state of a session or pipeline whose first run is given, and the
// other runs that have saved one. If none has, the state is that of the first run, without Saved.
func LastState[S any](ctx context.Context, store artifact.Store, layout artifact.Layout, first string) (last SavedState[S], others map[string]bool, err error) {
	last, others = SavedState[S]{Run: first}, map[string]bool{first: true}
	for key, err := range store.List(ctx, layout.File("runs/")) {
		if err != nil {
			return last, nil, fmt.Errorf("look for saved states: %w", err)
		}
		if !strings.HasSuffix(key, "/state.json") {
			continue
		}
		s, err := artifact.ReadJSON[SavedState[S]](ctx, store, key)
		if _, malformed := errors.AsType[*artifact.MalformedError](err); malformed {
			continue
		}
		if err != nil {
			return last, nil, err
		}
		others[s.Run] = true
		if s.Format == stateFormat && s.Saved != nil && (last.Saved == nil || s.At.After(last.At)) {
			last = s
		}
	}
	delete(others, last.Run)
	return last, others, nil
}

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
		return fmt.Errorf("note what workflow %s has claimed: %w", c.WorkflowID, err)
	}
	return nil
}

// ClaimedBy returns the record of a workflow. If it is missing, the session or run has the workflow's ID.
func ClaimedBy(ctx context.Context, store artifact.Store, workflow string) (Claimed, error) {
	c, err := artifact.ReadJSON[Claimed](ctx, store, artifact.WorkflowKey(workflow))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return Claimed{WorkflowID: workflow, ID: workflow}, nil
	case err != nil:
		return c, fmt.Errorf("find what workflow %s has claimed: %w", workflow, err)
	}
	return c, nil
}
