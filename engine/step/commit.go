package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"conclave/engine/artifact"
)

// committed reads the commit of the step in dir, or artifact.ErrNotFound.
func committed(ctx context.Context, store artifact.Store, dir string) (artifact.Commit, error) {
	c, err := artifact.ReadJSON[artifact.Commit](ctx, store, dir+"action.json")
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("looking for the commit of %s: %w", dir, err)
	}
	// Documents are indented; whoever reads the commit gets what was committed.
	var payload bytes.Buffer
	if err := json.Compact(&payload, c.Payload); err != nil {
		return artifact.Commit{}, fmt.Errorf("reading the commit of %s: %w", dir, err)
	}
	c.Payload = payload.Bytes()
	return c, nil
}

// commit makes the action real. If another attempt was first, its commit is
// the step's action and is adopted.
func commit(ctx context.Context, store artifact.Store, dir string, c artifact.Commit) (artifact.Commit, error) {
	err := artifact.CreateJSON(ctx, store, dir+"action.json", c)
	if errors.Is(err, artifact.ErrExists) {
		return committed(ctx, store, dir)
	}
	if err != nil {
		return artifact.Commit{}, fmt.Errorf("committing %s: %w", dir, err)
	}
	return c, nil
}
