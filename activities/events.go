package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"conclave/engine/artifact"
)

// appendEvents makes events.jsonl end with the given events, whose numbers seq
// tells. Lines from the first one's number on are replaced: they are of a record
// whose completion was lost, or of a workflow that was reset. One record of a
// workflow runs at a time.
func appendEvents[E any](ctx context.Context, store artifact.Store, layout artifact.Layout, events []E, seq func(E) int) error {
	if len(events) == 0 {
		return nil
	}
	key := layout.File("events.jsonl")
	old, err := store.Get(ctx, key)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	lines := bytes.NewBuffer(before(old, seq(events[0])))
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	if err := store.Put(ctx, key, bytes.NewReader(lines.Bytes())); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// before returns the lines of the events numbered below seq. A line that is no
// event ends them.
func before(lines []byte, seq int) []byte {
	kept := 0
	for line := range bytes.Lines(lines) {
		var e struct {
			Seq int `json:"seq"`
		}
		if err := json.Unmarshal(line, &e); err != nil || e.Seq >= seq {
			break
		}
		kept += len(line)
	}
	return lines[:kept:kept]
}
