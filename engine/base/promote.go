package base

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"conclave/engine/artifact"
)

// Promote stores the tree of a session as a base and returns its hash. It copies only
// contents that the layout's base does not have.
func Promote(ctx context.Context, store artifact.Store, layout artifact.Layout, m artifact.Manifest, now func() time.Time) (hash string, err error) {
	release, err := hold(ctx, store, now)
	if err != nil {
		return "", err
	}
	defer release()
	w := &writer{store: store, now: now}
	if old := layout.Base(); old != nil {
		if err := w.reuse(ctx, old.Hash(), m); err != nil {
			return "", err
		}
	}
	p := &packer{}
	for _, f := range m.Files {
		if f.SHA256 == "" || w.known.has(f.SHA256) {
			continue
		}
		if err := w.copy(ctx, layout, f, p); err != nil {
			return "", fmt.Errorf("make a base of %q: %w", f.Path, err)
		}
		if p.body.Len() >= packBytes {
			if err := w.flush(ctx, p); err != nil {
				return "", err
			}
			p = &packer{}
		}
	}
	if err := w.flush(ctx, p); err != nil {
		return "", err
	}
	return w.finish(ctx, m)
}

// copy adds a content of a session to a pack, or stores it as a blob.
func (w *writer) copy(ctx context.Context, layout artifact.Layout, f artifact.File, p *packer) error {
	content, err := artifact.ReadFile(ctx, w.store, layout, f)
	if err != nil {
		return err
	}
	if !w.known.take(f.SHA256) {
		return nil
	}
	if f.Size <= maxPacked {
		p.add(f.SHA256, content)
		return nil
	}
	return w.blob(ctx, f.SHA256, bytes.NewReader(content))
}
