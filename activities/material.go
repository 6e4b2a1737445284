package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/step"
)

// CheckMaterial returns an error for a base or context that the store does not have, and for an
// invalid or repeated name of a context directory. It is called before anything is claimed.
func CheckMaterial(ctx context.Context, trees *snapshot.Trees, m artifact.Material) error {
	if _, err := Start(ctx, trees, artifact.Layout{}, m); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, c := range m.Context {
		if err := artifact.CheckContextName(c.Name); err != nil {
			return Invalid(err)
		}
		if names[c.Name] {
			return Invalid(fmt.Errorf("the context has two directories %s: give each a name of its own", c.Name))
		}
		names[c.Name] = true
	}
	_, err := Contexts(ctx, trees, m)
	return err
}

// UseMaterial protects the base and the context of a claimed session or run from pruning.
func UseMaterial(ctx context.Context, store artifact.Store, m artifact.Material, now func() time.Time) error {
	references := []string{}
	if m.Base != "" {
		references = append(references, m.Base)
	}
	for _, c := range m.Context {
		references = append(references, c.Manifest)
	}
	for _, reference := range references {
		hash, err := snapshot.Parse(reference)
		if err == nil {
			err = snapshot.Use(ctx, store, hash, now)
		}
		if err != nil {
			return finalIfDamaged(err)
		}
	}
	return nil
}

// Start opens the base of a session or run and returns the layout that starts from it, or layout
// unchanged if there is no base.
func Start(ctx context.Context, trees *snapshot.Trees, layout artifact.Layout, m artifact.Material) (artifact.Layout, error) {
	if m.Base == "" {
		return layout, nil
	}
	b, err := openSnapshot(ctx, trees, m.Base)
	return layout.On(b), err
}

// Contexts opens the context directories of a session or run.
func Contexts(ctx context.Context, trees *snapshot.Trees, m artifact.Material) ([]step.Context, error) {
	var contexts []step.Context
	for _, c := range m.Context {
		b, err := openSnapshot(ctx, trees, c.Manifest)
		if err != nil {
			return nil, err
		}
		contexts = append(contexts, step.Context{Name: c.Name, Files: b})
	}
	return contexts, nil
}

func openSnapshot(ctx context.Context, trees *snapshot.Trees, reference string) (*artifact.Base, error) {
	hash, err := snapshot.Parse(reference)
	if err != nil {
		return nil, Invalid(err)
	}
	b, err := trees.Open(ctx, hash)
	return b, finalIfDamaged(err)
}

func finalIfDamaged(err error) error {
	_, missing := errors.AsType[*snapshot.MissingError](err)
	_, malformed := errors.AsType[*artifact.MalformedError](err)
	_, limit := errors.AsType[*artifact.LimitError](err)
	if missing || malformed || limit || errors.Is(err, artifact.ErrCorrupt) {
		return Invalid(err)
	}
	return err
}
