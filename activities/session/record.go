package session

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// Record writes what people said where steps read it, accepted actions to the
// ledger, then the files derived from the history. It can be repeated: the
// ledger is written once, and an event is in events.jsonl once.
func (a *Activities) Record(ctx context.Context, in RecordInput) error {
	defer activities.Beat(ctx)()
	layout := artifact.InBucket(in.Session)
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	// Steps that run wait for these.
	for _, e := range in.Entries {
		if err := a.deliver(ctx, layout, e); err != nil {
			return err
		}
	}
	for _, e := range in.Entries {
		if err := a.enter(ctx, layout, team.Entry{Run: run, Accepted: e}); err != nil {
			return err
		}
	}
	if err := activities.AppendEvents(ctx, a.Store, layout, in.Events, func(e coordination.Entry) int { return e.Seq }); err != nil {
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
	if in.Over {
		step.ForgetAll(ctx, a.Store, layout.File("journal/"))
	}
	return nil
}

// deliver writes what a person said, if that is what e is about.
func (a *Activities) deliver(ctx context.Context, layout artifact.Layout, e coordination.Accepted) error {
	if e.Action != coordination.Say {
		return nil
	}
	key := step.MessageKey(layout, e.Message)
	err := artifact.PutJSON(ctx, a.Store, key, step.Message{
		Number: e.Message, Agent: e.Agent, Text: e.Text, SaidAt: artifact.Timestamp(a.Now()),
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// enter writes one ledger entry, at its own number or, when another run of the
// session has taken that, at the next free one.
func (a *Activities) enter(ctx context.Context, layout artifact.Layout, e team.Entry) error {
	for seq := e.Seq; ; seq++ {
		key := layout.Ledger(seq)
		err := artifact.CreateJSON(ctx, a.Store, key, e)
		if !errors.Is(err, artifact.ErrExists) {
			if err != nil {
				return fmt.Errorf("writing %s: %w", key, err)
			}
			return nil
		}
		there, err := artifact.ReadJSON[team.Entry](ctx, a.Store, key)
		if err != nil {
			return fmt.Errorf("reading %s: %w", key, err)
		}
		if there.Run == e.Run && there.Seq == e.Seq {
			return nil
		}
	}
}
