package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"conclave/engine/artifact"
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

// SavedStates yields the states saved by the workflow runs of a session or pipeline, in no
// particular order. It skips malformed states.
func SavedStates[S any](ctx context.Context, store artifact.Store, layout artifact.Layout) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		for key, err := range store.List(ctx, layout.File("runs/")) {
			var s S
			switch {
			case err != nil:
				err = fmt.Errorf("looking for saved states: %w", err)
			case !strings.HasSuffix(key, "/state.json"):
				continue
			default:
				if s, err = artifact.ReadJSON[S](ctx, store, key); isMalformed(err) {
					continue
				}
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func isMalformed(err error) bool {
	_, malformed := errors.AsType[*artifact.MalformedError](err)
	return malformed
}
