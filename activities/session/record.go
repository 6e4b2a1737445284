package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"conclave/activities"
	"conclave/activities/attempt"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// Record writes human messages for running steps, accepted actions to the ledger, and then the
// documents derived from the history. It is idempotent: each ledger entry and each event is written
// once. It deletes the journals when a session has ended and cannot be reopened.
func (a *Activities) Record(ctx context.Context, in RecordInput) error {
	defer activities.Beat(ctx)()
	layout := artifact.InBucket(in.Session)
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	for _, e := range in.Entries { // first, because running steps wait for messages
		if e.Action != coordination.Say {
			continue
		}
		m := step.Message{Number: e.Message, Agent: e.Agent, Text: e.Text}
		if err := activities.WriteMessage(ctx, a.Store, layout, m, a.Now()); err != nil {
			return err
		}
	}
	if err := a.writeResults(ctx, layout, in.Results); err != nil { // steps wait for them, too
		return err
	}
	if a.Yield != nil && !in.Over && !in.awaited() {
		a.Yield(ctx)
	}
	if err := a.enterAll(ctx, layout, run, in); err != nil {
		return err
	}
	if err := a.writeRecord(ctx, layout, run, in); err != nil {
		return err
	}
	if in.Over {
		a.Over(layout)
		a.memories.end(ctx)
	}
	return nil
}

// awaited reports whether running steps wait for a message or a result in the record.
func (in RecordInput) awaited() bool {
	return len(in.Results) > 0 || slices.ContainsFunc(in.Entries, func(e coordination.Accepted) bool { return e.Action == coordination.Say })
}

// writeRecord writes the documents derived from the history concurrently.
func (a *Activities) writeRecord(ctx context.Context, layout artifact.Layout, run string, in RecordInput) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.memories.appendEvents(ctx, a.Store, layout, in.Events) })
	group.Go(func() error {
		session, err := artifact.ReadJSON[artifact.Session](ctx, a.memories.over(ctx, a.Store), layout.File("session.json"))
		if err != nil {
			return err
		}
		status := in.Status // in is shared with the other goroutines
		status.Query = session.Query
		return artifact.PutJSON(ctx, a.Store, layout.File("status.json"), status)
	})
	if in.Saved != nil {
		group.Go(func() error {
			return artifact.PutJSON(ctx, a.Store, layout.SavedState(run), savedState{Format: savedFormat, Run: run, Saved: *in.Saved})
		})
	}
	if in.Over {
		group.Go(func() error {
			err := a.abandonSuspended(ctx, in)
			if err == nil && (in.Saved == nil || in.Saved.Core.Decision().Stands()) {
				step.Forget(ctx, a.Store, layout.File("journal/"))
			}
			return err
		})
	}
	return group.Wait()
}

// abandonSuspended writes last_action.json for steps that were still suspended when the session
// ended.
func (a *Activities) abandonSuspended(ctx context.Context, in RecordInput) error {
	if in.Saved == nil {
		return nil
	}
	for _, l := range in.Saved.Core.Suspended() {
		l.After = 0 // the step may be that of an earlier launch
		ended := attempt.Ended{Token: l.ResumeFrom, Cause: coordination.Failure{
			Type: activities.Suspended, Message: "the session ended before the suspended step was resumed",
		}}
		if _, err := a.Reckon(ctx, ReckonInput{Session: in.Session, Launch: l, Ended: ended}); err != nil {
			return fmt.Errorf("recording the suspended step of %s: %w", l.Agent, err)
		}
	}
	return nil
}

// enterAll writes the ledger entries. It returns an error if a later workflow run has sealed the
// ledger.
func (a *Activities) enterAll(ctx context.Context, layout artifact.Layout, run string, in RecordInput) error {
	last, created := in.Seal, false
	for _, e := range in.Entries {
		var err error
		if last, created, err = a.enter(ctx, layout, team.Entry{Run: run, Accepted: e}, in.Seal); err != nil {
			return err
		}
	}
	if created { // a seal would have taken this number
		return nil
	}
	if later, err := team.SealedAfter(ctx, a.Store, layout, last); err != nil || later != "" && later != run {
		return cmp.Or(err, activities.Superseded("recording the session: it goes on in run %s", later))
	}
	return nil
}

// enter writes a ledger entry at its number, or at the next free one if another workflow run of the
// session has used it, and returns the number. created is false if an earlier attempt had written
// the entry.
func (a *Activities) enter(ctx context.Context, layout artifact.Layout, e team.Entry, seal int) (at int, created bool, err error) {
	for seq := e.Seq; ; seq++ {
		key := layout.Ledger(seq)
		err := artifact.CreateJSON(ctx, a.Store, key, e)
		if !errors.Is(err, artifact.ErrExists) {
			return seq, true, err
		}
		existing, err := artifact.ReadJSON[team.Entry](ctx, a.Store, key)
		if err != nil {
			return seq, false, err
		}
		switch {
		case existing.Action == team.Resumed && seq > seal:
			return seq, false, activities.Superseded("recording entry %d: the session goes on in run %s", e.Seq, existing.Run)
		case existing.Run == e.Run && existing.Seq == e.Seq && existing.Action != team.Resumed:
			return seq, false, nil
		}
	}
}
