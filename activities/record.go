package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
	"conclave/engine/team"
)

// RecordInput is what has happened since the last Record.
type RecordInput struct {
	Session string                  `json:"session"`
	Entries []coordination.Accepted `json:"entries"`
	Events  []coordination.Entry    `json:"events"`

	// Status is the new content of status.json, without the query.
	Status SessionState `json:"status"`

	// Over says that the session has ended: no step of it goes on any more.
	Over bool `json:"over,omitempty"`
}

// SessionState is a session at a glance: the answer to the state query and the
// content of status.json.
type SessionState struct {
	SessionID string `json:"session_id"`
	Query     string `json:"query"`
	coordination.View

	// Status is "running" or how the session ended.
	Status string `json:"status"`

	// Final is where the final answer is; null until it is there.
	Final *FinalAnswer `json:"final"`
}

// FinalAnswer says whose the final answer is and where.
type FinalAnswer struct {
	Agent string `json:"agent"`
	Label string `json:"label"`
	Path  string `json:"path"` // of its answer.json
}

// Record writes what people said where steps read it, accepted actions to the
// ledger, then the files derived from the history. It can be repeated: the
// ledger is written once, and an event is in events.jsonl once.
func (a *Activities) Record(ctx context.Context, in RecordInput) error {
	defer pulse(ctx)()
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
	if err := appendEvents(ctx, a.Store, layout, in.Events, func(e coordination.Entry) int { return e.Seq }); err != nil {
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
