package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/step"
)

// ReadSource replaces a base that is a source by the reference of its files. A retry finds those of the
// attempt that claimed the run by the document with the key.
func ReadSource(ctx context.Context, s Server, store artifact.Store, claim string, m *artifact.Material, read func(context.Context, string) (string, error)) error {
	const attempts = 24 // about ten minutes, in which a repository may be away
	name, is := m.Source()
	if !is {
		return nil
	}
	made, err := artifact.ReadJSON[artifact.Material](ctx, store, claim)
	switch {
	case err == nil:
		m.Base = made.Base
		return nil
	case !errors.Is(err, artifact.ErrNotFound):
		return err
	case read == nil:
		return Invalid(fmt.Errorf("base: this worker has no source %.80q; define it under sources in its configuration", name))
	}
	m.Base, err = read(ctx, name)
	switch {
	case Lacks(err, NoSource):
		return UnknownName(ctx, s, err)
	case err != nil && activity.GetInfo(ctx).Attempt >= attempts:
		return Invalid(err)
	}
	return finalIfDamaged(err)
}

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
	if _, err := Contexts(ctx, trees, m); err != nil {
		return err
	}
	_, err := Pictures(ctx, trees, m)
	return err
}

// Pictures reads the pictures of a question.
func Pictures(ctx context.Context, trees *snapshot.Trees, m artifact.Material) ([]llm.Image, error) {
	if len(m.Images) > artifact.MaxPictures {
		return nil, Invalid(fmt.Errorf("the question has %d pictures: leave at most %d", len(m.Images), artifact.MaxPictures))
	}
	var shown []llm.Image
	var size int64
	for _, p := range m.Images {
		b, err := openSnapshot(ctx, trees, p.Manifest)
		if err != nil {
			return nil, err
		}
		f, found := b.File(p.Path)
		if !found {
			return nil, Invalid(fmt.Errorf("images: %.200q is no file of %s", p.Path, p.Manifest))
		}
		if size += f.Size; size > artifact.MaxPictureBytes {
			return nil, Invalid(fmt.Errorf("images: there are more than %d MB: leave pictures out", artifact.MaxPictureBytes>>20))
		}
		data, err := b.ReadFile(ctx, f)
		if err != nil {
			return nil, finalIfDamaged(err)
		}
		image := llm.Image{Data: data, Ref: f.SHA256}
		image.MediaType = image.Format()
		if err := image.CheckWhole(); err != nil {
			return nil, Invalid(fmt.Errorf("images: %.200q: %w", p.Path, err))
		}
		shown = append(shown, image)
	}
	return shown, nil
}

// UseMaterial protects the base, the context and the pictures of a claimed session or run from pruning.
func UseMaterial(ctx context.Context, store artifact.Store, m artifact.Material, now func() time.Time) error {
	references := []string{}
	if m.Base != "" {
		references = append(references, m.Base)
	}
	for _, c := range m.Context {
		references = append(references, c.Manifest)
	}
	for _, p := range m.Images {
		references = append(references, p.Manifest)
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
