package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"conclave/engine/artifact"
)

// project makes the files that people and other programs read from the commit.
// It may run any number of times, also in two attempts at once. The files that
// are replaced come last: who sees the new ones finds the others there.
func project(ctx context.Context, store artifact.Store, s Spec, r *Result) error {
	dir := s.Dir(r.Step)
	documents, err := s.Project(r.Step, r.Commit)
	if err != nil {
		return fmt.Errorf("reading the commit of %s: %w", dir, err)
	}
	once, replaced := split(documents)
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return projectWorkspace(together, store, s, r) })
	group.Go(func() error { return projectTranscript(together, store, s, r) })
	for _, d := range once {
		group.Go(func() error { return write(together, store, d) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return writeAll(ctx, store, replaced)
}

// split separates the documents that are written once from those replaced.
func split(documents []Document) (once, replaced []Document) {
	for _, d := range documents {
		if d.Replace {
			replaced = append(replaced, d)
		} else {
			once = append(once, d)
		}
	}
	return once, replaced
}

func projectWorkspace(ctx context.Context, store artifact.Store, s Spec, r *Result) error {
	if r.Commit.Manifest == "" {
		return nil
	}
	dir := s.Dir(r.Step)
	m, err := artifact.LoadManifest(ctx, store, s.Layout, r.Commit.Manifest)
	if err != nil {
		return fmt.Errorf("reading the manifest of %s: %w", dir, err)
	}
	r.Files = len(m.Files)
	if err := artifact.Project(ctx, store, s.Layout, m, dir+"workspace/"); err != nil {
		return fmt.Errorf("placing the workspace of %s: %w", dir, err)
	}
	return write(ctx, store, Document{Key: dir + "workspace.json", Body: m})
}

func projectTranscript(ctx context.Context, store artifact.Store, s Spec, r *Result) error {
	if r.Commit.Transcript == "" {
		return nil
	}
	dir := s.Dir(r.Step)
	if err := store.Copy(ctx, s.Layout.Blob(r.Commit.Transcript), dir+"transcript.jsonl"); err != nil {
		return fmt.Errorf("placing the transcript of %s: %w", dir, err)
	}
	return nil
}

func writeAll(ctx context.Context, store artifact.Store, documents []Document) error {
	for _, d := range documents {
		if err := write(ctx, store, d); err != nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, store artifact.Store, d Document) error {
	overtaken, err := overtaken(ctx, store, d)
	if err != nil {
		return fmt.Errorf("reading %s before it is replaced: %w", d.Key, err)
	}
	if overtaken {
		return nil
	}
	if d.Replace {
		err = artifact.PutJSON(ctx, store, d.Key, d.Body)
	} else if err = artifact.CreateJSON(ctx, store, d.Key, d.Body); errors.Is(err, artifact.ErrExists) {
		err = nil // an earlier projection of the same commit
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.Key, err)
	}
	return nil
}

// overtaken reports whether the file that d would replace tells of something
// later: attempts and steps may project in any order.
func overtaken(ctx context.Context, store artifact.Store, d Document) (bool, error) {
	if !d.Replace || d.Newer == nil {
		return false, nil
	}
	existing, err := artifact.ReadJSON[json.RawMessage](ctx, store, d.Key)
	var malformed *artifact.MalformedError
	switch {
	case errors.Is(err, artifact.ErrNotFound), errors.As(err, &malformed):
		return false, nil
	case err != nil:
		return false, err
	}
	return d.Newer(existing), nil
}
