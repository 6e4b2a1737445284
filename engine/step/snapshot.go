package step

import (
	"context"
	"fmt"

	"conclave/engine/artifact"
)

// snapshot writes what the commit will refer to, content-addressed and so
// invisible until then: the workspace's files and the transcript. Files that the
// action has otherwise are there already.
func snapshot(ctx context.Context, p Ports, s Spec, w *workspace, sealed Sealed, j *journal, c *artifact.Commit, r *Result) error {
	if sealed.Workspace {
		m, hash, err := w.copy.Seal(ctx)
		if err != nil {
			return fmt.Errorf("storing the workspace: %w", err)
		}
		for _, warning := range w.copy.Warnings() {
			r.Warnings = append(r.Warnings, warning.String())
		}
		c.Manifest = sealed.Otherwise
		if len(m.Files) > 0 {
			c.Manifest, r.Files = hash, len(m.Files)
		}
	}
	sum, err := artifact.PutBlob(ctx, p.Store, s.Layout, j.transcript.Bytes())
	if err != nil {
		return fmt.Errorf("storing the transcript: %w", err)
	}
	c.Transcript = sum
	return nil
}
