package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/scenario"
)

// PRDKey returns the key of a run's prd.md. A client may store the file in advance and pass only
// its PRDHash to the workflow, because more people can read histories than the store.
func PRDKey(slug, run string) string { return prdOf(artifact.InScenario(slug, run)) }

// PRDHash returns the hexadecimal SHA-256 of a prd.md.
func PRDHash(prd string) string {
	return artifact.SumOf([]byte(prd))
}

func prdOf(layout artifact.Layout) string { return layout.File("definition/prd.md") }

// definitionOf returns the key of the copy of a step's file made when the run began.
func definitionOf(layout artifact.Layout, file string) string {
	return layout.File("definition/steps/" + file)
}

// planOf returns the key of the copy of the plan made when the run began.
func planOf(layout artifact.Layout) string { return layout.File("definition/meta.json") }

func (a *Activities) keepDefinition(ctx context.Context, layout artifact.Layout, in PrepareInput) error {
	if err := artifact.PutJSON(ctx, a.Store, planOf(layout), in.Plan); err != nil {
		return err
	}
	for _, s := range in.Plan.All() {
		if err := a.Store.Put(ctx, definitionOf(layout, s.File), bytes.NewReader([]byte(in.Files[s.File]))); err != nil {
			return err
		}
	}
	if in.PRDHash != "" {
		return nil
	}
	return a.Store.Put(ctx, prdOf(layout), bytes.NewReader([]byte(in.PRD)))
}

// checkDefinition returns an error for malformed credentials, or if the stored prd.md does not
// match the PRDHash.
func (a *Activities) checkDefinition(ctx context.Context, layout artifact.Layout, in PrepareInput) error {
	prd := in.PRD
	if in.PRDHash != "" {
		stored, err := a.Store.Get(ctx, prdOf(layout))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return activities.Invalid(fmt.Errorf("there is no prd.md of run %s at %s: start the run with the bucket and prefix of the workers", in.RunID, a.Store.URL(prdOf(layout))))
		case err != nil:
			return err
		case PRDHash(string(stored)) != in.PRDHash:
			return activities.Invalid(fmt.Errorf("%s has changed since run %s was started: start a new run", a.Store.URL(prdOf(layout)), in.RunID))
		}
		prd = string(stored)
	}
	if _, err := scenario.ParseProject(prd); err != nil {
		return activities.Invalid(err)
	}
	for _, s := range in.Plan.All() {
		if _, err := scenario.AsksForCredentials(in.Files[s.File]); err != nil {
			return activities.Invalid(fmt.Errorf("step %s of scenario %s: %w", s.ID, in.Plan.Slug, err))
		}
	}
	return nil
}

// readProject reads the run's prd.md. It returns the zero Project if the file does not exist.
func readProject(ctx context.Context, store artifact.Store, layout artifact.Layout) (scenario.Project, error) {
	prd, err := store.Get(ctx, prdOf(layout))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return scenario.Project{}, err
	}
	return scenario.ParseProject(string(prd))
}
