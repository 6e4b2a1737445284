package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// RecordInput is what has happened since the last Record.
type RecordInput struct {
	Session string                  `json:"session"`
	Entries []coordination.Accepted `json:"entries"`
	Events  []coordination.Entry    `json:"events"`

	// Status is the new content of status.json, without the query.
	Status SessionState `json:"status"`
}

// SessionState is a session at a glance: the answer to the state query and the
// content of status.json.
type SessionState struct {
	SessionID string `json:"session_id"`
	Query     string `json:"query"`
	coordination.View

	// Status is "running" or how the session ended.
	Status string `json:"status"`
}

// ledgerEntry is ledger/<seq>.json. After a workflow reset the entries of the
// new run follow those of the old one: the run that began last counts.
type ledgerEntry struct {
	Run string `json:"run"`
	coordination.Accepted
}

// Record writes accepted actions to the ledger, then the files derived from the
// history. It can be repeated: the ledger is written once, an event that is in
// events.jsonl already is not added again.
func (a *Activities) Record(ctx context.Context, in RecordInput) error {
	layout := artifact.InBucket(in.Session)
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	for _, e := range in.Entries {
		if err := a.enter(ctx, layout, ledgerEntry{Run: run, Accepted: e}); err != nil {
			return err
		}
	}
	if err := a.appendEvents(ctx, layout, in.Events); err != nil {
		return err
	}
	session, err := artifact.ReadJSON[artifact.Session](ctx, a.Store, layout.File("session.json"))
	if err != nil {
		return fmt.Errorf("reading session.json: %w", err)
	}
	in.Status.Query = session.Query
	key := layout.File("status.json")
	if err := artifact.PutJSON(ctx, a.Store, key, in.Status); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// enter writes one ledger entry, at its own number or, when another run of the
// session has taken that, at the next free one.
func (a *Activities) enter(ctx context.Context, layout artifact.Layout, e ledgerEntry) error {
	for seq := e.Seq; ; seq++ {
		key := layout.Ledger(seq)
		err := artifact.CreateJSON(ctx, a.Store, key, e)
		if !errors.Is(err, artifact.ErrExists) {
			if err != nil {
				return fmt.Errorf("writing %s: %w", key, err)
			}
			return nil
		}
		there, err := artifact.ReadJSON[ledgerEntry](ctx, a.Store, key)
		if err != nil {
			return fmt.Errorf("reading %s: %w", key, err)
		}
		if there.Run == e.Run && there.Seq == e.Seq {
			return nil
		}
	}
}

// appendEvents adds the events that events.jsonl does not end with yet. One
// Record of a session runs at a time.
func (a *Activities) appendEvents(ctx context.Context, layout artifact.Layout, events []coordination.Entry) error {
	key := layout.File("events.jsonl")
	old, err := a.Store.Get(ctx, key)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	last := lastEvent(old)
	buf := bytes.NewBuffer(old)
	for _, e := range events {
		if e.Seq <= last {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		buf.Write(append(line, '\n'))
	}
	if err := a.Store.Put(ctx, key, bytes.NewReader(buf.Bytes())); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// lastEvent is the number of the last line, 0 for none.
func lastEvent(lines []byte) int {
	lines = bytes.TrimRight(lines, "\n")
	var last coordination.Entry
	if err := json.Unmarshal(lines[bytes.LastIndexByte(lines, '\n')+1:], &last); err != nil {
		return 0
	}
	return last.Seq
}
