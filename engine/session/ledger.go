package session

import (
	"context"
	"fmt"
	"time"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
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

// LedgerOf returns the files of a session's ledger.
func LedgerOf(store artifact.Store, layout artifact.Layout) artifact.Series[Entry] {
	return artifact.Series[Entry]{Store: store, Key: layout.Ledger}
}

// Ledger reads the entries that count, in order. After a workflow reset the new run appends files that
// repeat numbers of the old one: an entry replaces all earlier ones with its number or a higher one.
func Ledger(ctx context.Context, store artifact.Store, layout artifact.Layout) ([]Entry, error) {
	var entries []Entry
	file := 0
	for e, err := range LedgerOf(store, layout).From(ctx, 1) {
		if err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		if file++; e.Action == Resumed {
			continue
		}
		if entries, err = Follow(entries, e); err != nil {
			return nil, fmt.Errorf("read the ledger: %s %w", layout.Ledger(file), err)
		}
	}
	return entries, nil
}

// Seal seals the ledger for a run, unless it already has, and returns the seal's file.
func Seal(ctx context.Context, store artifact.Store, layout artifact.Layout, run string, now time.Time) (int, error) {
	ledger := LedgerOf(store, layout)
	var last Entry
	files := 0
	for e, err := range ledger.From(ctx, 1) {
		if err != nil {
			return 0, fmt.Errorf("read the ledger: %w", err)
		}
		last, files = e, files+1
	}
	if last.Action == Resumed && last.Run == run {
		return files, nil
	}
	seal := Entry{Run: run, From: last.Run, Accepted: coordination.Accepted{Action: Resumed, Time: artifact.Timestamp(now)}}
	file, _, err := ledger.Claim(ctx, files+1, seal, func(_ int, e Entry) (bool, error) { return e.Action == Resumed && e.Run == run, nil })
	return file, err
}

// SealedAfter returns the run that sealed the ledger after a file, or "" if none did.
func SealedAfter(ctx context.Context, store artifact.Store, layout artifact.Layout, file int) (run string, err error) {
	for e, err := range LedgerOf(store, layout).From(ctx, file+1) {
		if err != nil {
			return "", fmt.Errorf("look for a seal of the ledger: %w", err)
		}
		if e.Action == Resumed {
			return e.Run, nil
		}
	}
	return "", nil
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
