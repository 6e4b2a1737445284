package record

import (
	"context"
	"errors"
	"fmt"
	"io"

	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
)

// ReadScenario reads a scenario's run. A missing run is ErrNone.
func ReadScenario(ctx context.Context, store artifact.Store, layout artifact.Layout) (scenario.Run, error) {
	key := layout.File(Scenarios.Status)
	run, err := artifact.ReadJSON[scenario.Run](ctx, store, key)
	if errors.Is(err, artifact.ErrNotFound) || err == nil && run.RunID == "" {
		return run, ErrNone
	}
	if err != nil {
		return run, fmt.Errorf("read %s: %w", store.URL(key), err)
	}
	return run, nil
}

// ReadEvidence returns a file of a scenario's run, or nil if it is missing or too large for a page.
func (r Run) ReadEvidence(ctx context.Context, path string) []byte {
	const most = 8 << 20
	body, err := r.Store.Open(ctx, r.Layout.File(path))
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil || len(data) > most {
		return nil
	}
	return data
}

// Content reads at most limit bytes of a file within the directory of a step. In a bucket the
// content is a blob, in a directory it is a file of the workspace.
func (r Run) Content(ctx context.Context, dir string, f artifact.File, limit int64) ([]byte, error) {
	if problem := f.Reserved(); problem != "" {
		return nil, fmt.Errorf("read %s of %s: %s: %w", f.Path, dir, problem, artifact.ErrNotFound)
	}
	escaped, err := artifact.EscapePath(f.Path)
	if err != nil {
		return nil, err
	}
	body, err := r.Store.Open(ctx, r.Layout.File(dir+"workspace/"+escaped))
	if errors.Is(err, artifact.ErrNotFound) && f.SHA256 != "" {
		body, err = r.Store.Open(ctx, r.Layout.Blob(f.SHA256))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", f.Path, dir, err)
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", f.Path, dir, err)
	}
	return data, nil
}
