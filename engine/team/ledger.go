package team

import (
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// Resumed is the action of the entry with which a new run of a session seals the ledger, so
// that no earlier run can add entries after it. The entry has no number.
const Resumed coordination.Action = "resumed"

// Entry is ledger/<seq>.json: one accepted action or human message, or a seal.
type Entry struct {
	Run  string `json:"run"`            // run of the workflow
	From string `json:"from,omitempty"` // the run before, in a seal
	coordination.Accepted
}

// Book is a ledger.
type Book struct {
	Entries []Entry // those that count, in order
	Files   int
	Seal    int    // file of the last seal; 0 without one
	Run     string // run of the last file
}

// Ledger reads the entries that count, in order.
func Ledger(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]Entry, error) {
	b, err := ReadBook(ctx, store, layout, "")
	return b.Entries, err
}

// ReadBook reads the ledger. After a workflow reset the new run appends files that repeat
// numbers of the old one: an entry replaces all earlier ones with its number or a higher one.
// ReadBook ignores the seal of the run named by without.
func ReadBook(ctx context.Context, store artifact.Store, layout artifact.Layout, without string) (Book, error) {
	var b Book
	for file := 1; ; file++ {
		e, err := artifact.ReadJSON[Entry](ctx, store, layout.Ledger(file))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return b, nil
		case err != nil:
			return Book{}, fmt.Errorf("reading the ledger: %w", err)
		}
		if b.Entries, err = Follow(b.Entries, e); err != nil {
			return Book{}, fmt.Errorf("reading the ledger: %s %w", layout.Ledger(file), err)
		}
		if b.Files = file; e.Action == Resumed && e.Run == without {
			continue
		}
		if b.Run = e.Run; e.Action == Resumed {
			b.Seal = file
		}
	}
}

// Seal seals the ledger for a run, unless it already has, and returns the seal's file.
func Seal(ctx context.Context, store artifact.Store, layout artifact.Layout, run string, now time.Time) (int, error) {
	for {
		b, err := ReadBook(ctx, store, layout, "")
		if err != nil {
			return 0, err
		}
		if b.Seal > 0 && b.Seal == b.Files && b.Run == run {
			return b.Seal, nil
		}
		e := Entry{Run: run, From: b.Run, Accepted: coordination.Accepted{Action: Resumed, Time: artifact.Timestamp(now)}}
		err = artifact.CreateJSON(ctx, store, layout.Ledger(b.Files+1), e)
		if !errors.Is(err, artifact.ErrExists) {
			return b.Files + 1, err
		}
	}
}

// SealedAfter returns the run that sealed the ledger after a file, or "" if none did.
func SealedAfter(ctx context.Context, store artifact.Store, layout artifact.Layout, file int) (run string, err error) {
	for {
		file++
		e, err := artifact.ReadJSON[Entry](ctx, store, layout.Ledger(file))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("looking for a seal of the ledger: %w", err)
		case e.Action == Resumed:
			return e.Run, nil
		}
	}
}

// Follow appends the entry in the next file to the entries of the files before it.
func Follow(entries []Entry, e Entry) ([]Entry, error) {
	if e.Action == Resumed {
		return entries, nil
	}
	if e.Seq < 1 || e.Seq > len(entries)+1 {
		return nil, fmt.Errorf("has entry %d after %d entries: an entry between them is missing", e.Seq, len(entries))
	}
	return append(entries[:e.Seq-1], e), nil
}
