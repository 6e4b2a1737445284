package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"conclave/engine/artifact"
	"conclave/engine/scenario"
)

// FindScenario returns the layout of the scenario run with an ID, or ErrNone. It searches
// all scenarios, because the ID does not include the scenario.
func FindScenario(ctx context.Context, store artifact.Store, id string) (artifact.Layout, error) {
	for key, err := range store.List(ctx, "scenarios/") {
		if err != nil {
			return artifact.Layout{}, fmt.Errorf("look for the scenario of run %s: %w", id, err)
		}
		if parts := strings.SplitN(key, "/", 5); len(parts) == 5 && parts[2] == "runs" && parts[3] == id {
			return artifact.InScenario(parts[1], id), nil
		}
	}
	return artifact.Layout{}, ErrNone
}

// ReadScenario reads a scenario's run. A missing run is ErrNone.
func ReadScenario(ctx context.Context, store artifact.Store, layout artifact.Layout) (scenario.Run, error) {
	key := layout.File("result.json")
	run, err := artifact.ReadJSON[scenario.Run](ctx, store, key)
	if errors.Is(err, artifact.ErrNotFound) || err == nil && run.RunID == "" {
		return run, ErrNone
	}
	if err != nil {
		return run, fmt.Errorf("read %s: %w", store.URL(key), err)
	}
	return run, nil
}

// IsScenario reports whether a directory belongs to a scenario's run.
func IsScenario(root *os.Root) bool {
	for _, other := range []string{"session.json", "pipeline.json"} {
		if _, err := root.Stat(other); err == nil {
			return false
		}
	}
	_, err := root.Stat("result.json")
	return err == nil
}
