package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
)

// HistoryFile is the file with the earlier turns of a session's conversation, the oldest first.
const HistoryFile = "history.json"

// MaxConversation bounds, in bytes, a query together with its earlier turns.
const MaxConversation = 256 << 10

// CheckTurns refuses turns without a text and turns that exceed MaxConversation together with the query.
func CheckTurns(query string, turns []artifact.Turn) error {
	size := len(query)
	for i, t := range turns {
		if strings.TrimSpace(t.Query) == "" && strings.TrimSpace(t.Answer) == "" {
			return fmt.Errorf("history[%d] is empty: give its query and its answer, or leave it out", i)
		}
		size += len(t.Query) + len(t.Answer)
	}
	if size > MaxConversation && len(turns) > 0 {
		return fmt.Errorf("the query and the history have %d bytes together, at most %d are accepted: leave out the oldest turns", size, MaxConversation)
	}
	return nil
}

// NewestTurns returns the newest turns that do not exceed MaxConversation together with the query. If the
// last turn alone is too long, it returns the beginnings of the turn's two texts.
func NewestTurns(query string, turns []artifact.Turn) []artifact.Turn {
	room := MaxConversation - len(query)
	kept := len(turns)
	for ; kept > 0; kept-- {
		t := turns[kept-1]
		if room -= len(t.Query) + len(t.Answer); room < 0 {
			break
		}
	}
	if kept < len(turns) || kept == 0 {
		return turns[kept:]
	}
	last := turns[kept-1]
	limit := text.Share([]int{len(last.Query), len(last.Answer)}, MaxConversation-len(query))
	if limit == 0 {
		return nil
	}
	last.Query, _ = text.Head(last.Query, limit)
	last.Answer, _ = text.Head(last.Answer, limit)
	return []artifact.Turn{last}
}

// ReadTurns reads as many earlier turns as session.json counts, which may be none.
func ReadTurns(ctx context.Context, store artifact.Store, layout artifact.Layout, session artifact.Session) ([]artifact.Turn, error) {
	if session.Turns == 0 {
		return nil, nil
	}
	turns, err := artifact.ReadJSON[[]artifact.Turn](ctx, store, layout.File(HistoryFile))
	if err == nil && len(turns) != session.Turns {
		err = &artifact.MalformedError{Key: layout.File(HistoryFile), Err: fmt.Errorf("it has %d turns, session.json names %d", len(turns), session.Turns)}
	}
	if err != nil {
		return nil, fmt.Errorf("read the earlier turns: %w", err)
	}
	return turns, nil
}

// pastTurn is an earlier turn as the templates print it between delimiter lines.
type pastTurn struct {
	Number                  int // number of the turn, from 1
	Query, Answer           string
	QueryCut, AnswerCut     int // bytes shown of a truncated text, else 0
	QueryBytes, AnswerBytes int
}

// frameTurns sanitizes the newest turns whose texts together have at most total bytes. It returns them, the
// oldest first, and the number of turns left out. The oldest returned turn may be truncated.
func frameTurns(turns []artifact.Turn, marks []string, total int) (framed []pastTurn, left int) {
	const least = 200 // bytes; a shorter part of a turn is useless
	for i, t := range slices.Backward(turns) {
		p := pastTurn{Number: i + 1, Query: text.Within(t.Query, marks...), Answer: text.Within(t.Answer, marks...)}
		p.QueryBytes, p.AnswerBytes = len(p.Query), len(p.Answer)
		if p.QueryBytes+p.AnswerBytes > total && len(framed) > 0 && total < least {
			left = i + 1
			break
		}
		limit := text.Share([]int{p.QueryBytes, p.AnswerBytes}, total)
		var cut bool
		if p.Query, cut = text.Head(p.Query, limit); cut {
			p.QueryCut = len(p.Query)
		}
		if p.Answer, cut = text.Head(p.Answer, limit); cut {
			p.AnswerCut = len(p.Answer)
		}
		total -= len(p.Query) + len(p.Answer)
		framed = append(framed, p)
	}
	slices.Reverse(framed)
	return framed, left
}

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
