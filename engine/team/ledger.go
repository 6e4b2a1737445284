package team

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// Entry is ledger/<seq>.json: one accepted action or human message.
type Entry struct {
	Run string `json:"run"` // of the workflow
	coordination.Accepted
}

// Ledger reads the entries that count, in order. After a workflow reset the new run
// appends files that repeat numbers of the old one: an entry replaces all earlier ones
// with its number or a higher one.
func Ledger(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]Entry, error) {
	var entries []Entry
	for file := 1; ; file++ {
		e, err := artifact.ReadJSON[Entry](ctx, store, layout.Ledger(file))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return entries, nil
		case err != nil:
			return nil, fmt.Errorf("reading the ledger: %w", err)
		}
		if entries, err = Follow(entries, e); err != nil {
			return nil, fmt.Errorf("reading the ledger: %s %w", layout.Ledger(file), err)
		}
	}
}

// Follow appends the entry of the next file to the entries of the files before it.
func Follow(entries []Entry, e Entry) ([]Entry, error) {
	if e.Seq < 1 || e.Seq > len(entries)+1 {
		return nil, fmt.Errorf("has entry %d after %d entries: one between is missing", e.Seq, len(entries))
	}
	return append(entries[:e.Seq-1], e), nil
}
