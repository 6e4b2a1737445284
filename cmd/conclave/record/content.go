package record

import (
	"context"
	"errors"
	"fmt"
	"io"

	"conclave/engine/artifact"
)

// readContent reads at most limit bytes of a file within the directory of a step. In a
// bucket the content is a blob, in a directory it is a file of the workspace.
func readContent(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string, f artifact.File, limit int64) ([]byte, error) {
	if problem := f.Reserved(); problem != "" {
		return nil, fmt.Errorf("read %s of %s: %s: %w", f.Path, dir, problem, artifact.ErrNotFound)
	}
	escaped, err := artifact.EscapePath(f.Path)
	if err != nil {
		return nil, err
	}
	body, err := store.Open(ctx, layout.File(dir+"workspace/"+escaped))
	if errors.Is(err, artifact.ErrNotFound) && f.SHA256 != "" {
		body, err = store.Open(ctx, layout.Blob(f.SHA256))
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
