package scenario

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
)

// PRDKey is where the store has prd.md as it is when a run begins. Whoever starts
// the run may put it there before, and give the workflow its PRDHash: what is in the
// input of a workflow is in its history, for everybody who may read that.
func PRDKey(slug, run string) string { return prdOf(artifact.InScenario(slug, run)) }

// PRDHash is the SHA-256 of a prd.md, in hex.
func PRDHash(prd string) string {
	sum := sha256.Sum256([]byte(prd))
	return hex.EncodeToString(sum[:])
}

func prdOf(layout artifact.Layout) string { return layout.File("definition/prd.md") }

// definitionOf is the key of the file of a step, as it was when the run began.
func definitionOf(layout artifact.Layout, file string) string {
	return layout.File("definition/steps/" + file)
}

// keepDefinition keeps what is run: nobody else writes there.
func (a *Activities) keepDefinition(ctx context.Context, layout artifact.Layout, in PrepareInput) error {
	if err := artifact.PutJSON(ctx, a.Store, layout.File("definition/meta.json"), in.Plan); err != nil {
		return fmt.Errorf("keeping the definition of run %s: %w", in.RunID, err)
	}
	for _, s := range in.Plan.Steps {
		if err := a.Store.Put(ctx, definitionOf(layout, s.File), bytes.NewReader([]byte(in.Files[s.File]))); err != nil {
			return fmt.Errorf("keeping step %s of run %s: %w", s.ID, in.RunID, err)
		}
	}
	if in.PRDHash != "" {
		return nil
	}
	if err := a.Store.Put(ctx, prdOf(layout), bytes.NewReader([]byte(in.PRD))); err != nil {
		return fmt.Errorf("keeping prd.md of run %s: %w", in.RunID, err)
	}
	return nil
}

// checkDefinition refuses credentials that are not declared as scenario.ParseProject
// wants them, and another prd.md in the store than the run was started with.
func (a *Activities) checkDefinition(ctx context.Context, layout artifact.Layout, in PrepareInput) error {
	prd := in.PRD
	if in.PRDHash != "" {
		stored, err := a.Store.Get(ctx, prdOf(layout))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return activities.Invalid(fmt.Errorf("there is no prd.md of run %s at %s: bucket and prefix of who started it have to be those of the workers", in.RunID, a.Store.URL(prdOf(layout))))
		case err != nil:
			return fmt.Errorf("reading prd.md of run %s: %w", in.RunID, err)
		case PRDHash(string(stored)) != in.PRDHash:
			return activities.Invalid(fmt.Errorf("%s is not the prd.md that run %s was started with: start a new run", a.Store.URL(prdOf(layout)), in.RunID))
		}
		prd = string(stored)
	}
	if _, err := scenario.ParseProject(prd); err != nil {
		return activities.Invalid(err)
	}
	for _, s := range in.Plan.Steps {
		if _, err := scenario.AsksForCredentials(in.Files[s.File]); err != nil {
			return activities.Invalid(fmt.Errorf("step %s of scenario %s: %w", s.ID, in.Plan.Slug, err))
		}
	}
	return nil
}

// readPRD reads prd.md as it was when the run began; empty if there was none.
func readPRD(ctx context.Context, store artifact.Store, layout artifact.Layout) (string, error) {
	prd, err := store.Get(ctx, prdOf(layout))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return "", fmt.Errorf("reading prd.md of the run: %w", err)
	}
	return string(prd), nil
}
