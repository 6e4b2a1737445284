package member

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// Entry is ledger/<seq>.json: one accepted action, or what a person said.
type Entry struct {
	Run string `json:"run"` // of the workflow
	coordination.Accepted
}

// Ledger reads what counts in a session, in order. After a workflow reset the
// entries of the new run follow those of the old one in new files, with the
// numbers that they have in their run: an entry takes the place of all earlier
// ones with its number or a higher one.
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

// Follow adds the entry of the next file to those of the files before it.
func Follow(entries []Entry, e Entry) ([]Entry, error) {
	if e.Seq < 1 || e.Seq > len(entries)+1 {
		return nil, fmt.Errorf("has entry %d after %d entries: one between is missing", e.Seq, len(entries))
	}
	return append(entries[:e.Seq-1], e), nil
}
