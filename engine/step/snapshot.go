package step

import (
	"context"
	"fmt"

	"conclave/engine/artifact"
)

// snapshot writes what the commit will refer to, content-addressed and so
// invisible until then: the workspace's files and the transcript.
func snapshot(ctx context.Context, store artifact.Store, layout artifact.Layout, w *workspace, sealed Sealed, j *journal, c *artifact.Commit, r *Result) error {
	if sealed.Workspace {
		m, hash, warnings, err := artifact.Snapshot(ctx, store, layout, w.dir, artifact.SnapshotOptions{})
		if err != nil {
			return fmt.Errorf("storing the workspace: %w", err)
		}
		for _, warning := range warnings {
			r.Warnings = append(r.Warnings, warning.String())
		}
		if len(m.Files) > 0 {
			c.Manifest, r.Files = hash, len(m.Files)
		}
	}
	sum, err := artifact.PutBlob(ctx, store, layout, j.transcript.Bytes())
	if err != nil {
		return fmt.Errorf("storing the transcript: %w", err)
	}
	c.Transcript = sum
	return nil
}
