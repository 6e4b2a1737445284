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
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/session"
	"conclave/engine/step"
)

// Record writes human messages for running steps, accepted actions to the ledger, and then the
// documents derived from the history. It is idempotent: each ledger entry and each event is written
// once. It deletes the journals when a session has ended and cannot be reopened.
func (a *Activities) Record(ctx context.Context, in RecordInput) error {
	defer activities.Beat(ctx)()
	layout, store := artifact.InBucket(in.Session), activities.FenceStore(ctx, a.Store, a)
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
	for _, r := range in.Replies {
		if err := activities.CreateOnce(ctx, a.Store, layout.QuestionAnswer(r.Question), r); err != nil {
			return err
		}
	}
	if a.Yield != nil && !in.Over && !in.isAwaited() {
		a.Yield(ctx)
	}
	if err := a.enterEntries(ctx, layout, run, in); err != nil {
		return err
	}
	if err := a.writeRecord(ctx, store, layout, in); err != nil || !in.Over {
		return err
	}
	return a.cleanUpSession(ctx, layout, in)
}

func (in RecordInput) isAwaited() bool {
	return len(in.Results)+len(in.Replies) > 0 || slices.ContainsFunc(in.Entries, func(e coordination.Accepted) bool { return e.Action == coordination.Say })
}

// writeRecord writes the documents derived from the history, at the end those of the agents, too, and then the
// state, from which a later run goes on: everything that it covers is on record.
func (a *Activities) writeRecord(ctx context.Context, store artifact.Store, layout artifact.Layout, in RecordInput) error {
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return a.memory.appendEvents(together, store, layout, in.Events) })
	group.Go(func() error {
		session, err := artifact.ReadJSON[artifact.Session](together, a.memory.rememberingStore(ctx, a.Store), layout.File("session.json"))
		if err != nil {
			return err
		}
		status := in.Status // in is shared with the other goroutine
		status.Query = session.Query
		return artifact.PutJSON(together, store, layout.File("status.json"), status)
	})
	if in.Over {
		for _, agent := range in.Saved.Core.View().Agents {
			m := session.Step{Layout: layout, Launch: coordination.Launch{Agent: agent.ID}, Agents: in.Saved.Core.Config.Agents, Scratch: a.Scratch}
			group.Go(func() error { return a.writeLastAction(together, store, m, agent.Step) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	saved := *in.Saved
	saved.Prepared.Drafted = in.Status.Preparations
	return activities.SaveState(ctx, store, layout, &saved)
}

// cleanUpSession ends the suspended steps of a session that is over, and deletes the journals if it cannot be reopened.
func (a *Activities) cleanUpSession(ctx context.Context, layout artifact.Layout, in RecordInput) error {
	for _, l := range in.Saved.Core.Suspended() {
		l.After = 0 // the step may be that of an earlier launch
		ended := attempt.Ended{Token: l.ResumeFrom, Cause: coordination.Failure{
			Type: activities.Suspended, Message: "the session ended before the suspended step was resumed",
		}}
		if _, err := a.Reckon(ctx, ReckonInput{Session: in.Session, Launch: l, Ended: ended}); err != nil {
			return fmt.Errorf("record the suspended step of %s: %w", l.Agent, err)
		}
	}
	if in.Saved.Core.Decision().Stands() {
		step.Forget(ctx, a.Store, layout.File("journal/"))
	}
	a.EndShared(layout.Root())
	return nil
}

// writeLastAction writes the last_action.json of the agent's newest step with an action, of those up to a number. It
// keeps that of a later step, such as one that the end of the session has cut short.
func (a *Activities) writeLastAction(ctx context.Context, store artifact.Store, m session.Step, newest int) error {
	remembered := a.memory.rememberingStore(ctx, a.Store)
	for n := newest; n > 0; n-- {
		c, err := artifact.ReadJSON[artifact.Commit](ctx, remembered, m.Layout.Step(m.Launch.Agent, n, "action.json"))
		if errors.Is(err, artifact.ErrNotFound) || step.Wraps[*artifact.MalformedError](err) {
			continue
		}
		if err != nil {
			return err
		}
		documents, err := m.Documents(ctx, remembered, n, c)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(documents, func(d step.Document) bool { return d.Replace }); i >= 0 {
			return step.WriteDocument(ctx, store, documents[i])
		}
	}
	return nil
}

// enterEntries writes the ledger entries. It returns an error if a later workflow run has sealed the
// ledger.
func (a *Activities) enterEntries(ctx context.Context, layout artifact.Layout, run string, in RecordInput) error {
	last, created := in.Seal, false
	for _, e := range in.Entries {
		var err error
		if last, created, err = a.enterEntry(ctx, layout, session.Entry{Run: run, Accepted: e}, in.Seal, last+1); err != nil {
			return err
		}
	}
	if created { // a seal would have taken this number
		return nil
	}
	if later, err := session.SealedAfter(ctx, a.Store, layout, last); err != nil || later != "" && later != run {
		return cmp.Or(err, activities.Superseded("record the session: it goes on in run %s", later))
	}
	return nil
}

// enterEntry writes a ledger entry at its number, or at the next free one if another workflow run of the
// session has used it, and returns the number, which is not below first. created is false if an earlier
// attempt had written the entry.
func (a *Activities) enterEntry(ctx context.Context, layout artifact.Layout, e session.Entry, seal, first int) (at int, created bool, err error) {
	return session.LedgerOf(a.Store, layout).Claim(ctx, max(e.Seq, first), e, func(file int, other session.Entry) (bool, error) {
		if other.Action == session.Resumed && file > seal {
			return false, activities.Superseded("record entry %d: the session goes on in run %s", e.Seq, other.Run)
		}
		return other.Run == e.Run && other.Seq == e.Seq && other.Action != session.Resumed, nil
	})
}

// ReckonInput is a step that ended without a report. Its launch has only the fields that identify
// the step.
type ReckonInput struct {
	Session string              `json:"session"`
	Launch  coordination.Launch `json:"launch"`
	attempt.Ended
}

// Reckon returns the number and the usage of a step according to the store.
func (a *Activities) Reckon(ctx context.Context, in ReckonInput) (attempt.Failure, error) {
	layout, _, err := a.sessionLayout(ctx, a.Store, in.Session)
	if err != nil {
		return attempt.Failure{}, err
	}
	spec := session.Step{Layout: layout, Launch: in.Launch, Token: in.Token}.Place()
	return a.Process.Reckon(ctx, spec, in.Ended)
}
