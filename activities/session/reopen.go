package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/team"
)

// leastSeconds is the time that a reopened session has at least.
const leastSeconds = 600

// savedFormat is the format of state.json. A state of another format is not read.
const savedFormat = 1

// savedState is runs/<run>/state.json.
type savedState struct {
	Format int    `json:"format"`
	Run    string `json:"run"`
	Saved
}

// ReopenInput names an ended session for a new run of its workflow.
type ReopenInput struct {
	Session    string `json:"session"`
	WorkflowID string `json:"workflow_id"`
	Agent      string `json:"agent,omitempty"` // whose failed step is retried; empty for all
}

// Reopening is a session that a new run goes on with.
type Reopening struct {
	Query string `json:"query"`
	Run   string `json:"run"` // that ended
	Saved Saved  `json:"saved"`
}

// Reopen seals the ledger against late records of earlier runs and loads the state in which
// the last one ended, or restores it from the record if that run was cut off.
func (a *Activities) Reopen(ctx context.Context, in ReopenInput) (Reopening, error) {
	defer activities.Beat(ctx)()
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	r, session, err := a.reopening(ctx, in, run)
	if err != nil {
		return Reopening{}, err
	}
	layout := artifact.InBucket(in.Session)
	seal, err := team.Seal(ctx, a.Store, layout, run)
	if err == nil {
		r, err = a.load(ctx, in, session, run) // a late record may have come first
	}
	if err != nil {
		return Reopening{}, err
	}
	t, err := a.Teams.ByHash(ctx, a.Store, layout, session.ConfigHash)
	if err == nil {
		err = a.Check(ctx, t)
	}
	if err != nil {
		return Reopening{}, err
	}
	r.Saved.Prepared.Seal = seal
	r.Saved.Prepared.HeartbeatTimeoutSeconds = a.prepared(layout, t, 0).HeartbeatTimeoutSeconds
	return r, nil
}

// CanReopen returns an error if no new run can go on with an ended session. It changes
// nothing.
func (a *Activities) CanReopen(ctx context.Context, in ReopenInput) error {
	_, _, err := a.reopening(ctx, in, "")
	return err
}

// reopening loads an ended session as the run finds it.
func (a *Activities) reopening(ctx context.Context, in ReopenInput, run string) (Reopening, artifact.Session, error) {
	session, err := artifact.ReadJSON[artifact.Session](ctx, a.Store, artifact.InBucket(in.Session).File("session.json"))
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return Reopening{}, session, activities.Invalid(fmt.Errorf("there is no session %s to go on with: give a query instead of resume", in.Session))
	case err != nil:
		return Reopening{}, session, err
	case session.WorkflowID != in.WorkflowID:
		return Reopening{}, session, activities.Taken("session %s belongs to workflow %s: resume it under that ID", in.Session, session.WorkflowID)
	}
	r, err := a.load(ctx, in, session, run)
	if err != nil {
		return Reopening{}, session, err
	}
	if err := r.Saved.Core.Refuse(coordination.Reopened{Run: r.Run, Agent: in.Agent}); err != nil {
		return Reopening{}, session, activities.Invalid(fmt.Errorf("session %s cannot go on: %w", in.Session, err))
	}
	return r, session, nil
}

// load reads the newest state, if it has everything on the ledger, or else restores it.
func (a *Activities) load(ctx context.Context, in ReopenInput, session artifact.Session, run string) (Reopening, error) {
	layout := artifact.InBucket(in.Session)
	book, err := team.ReadBook(ctx, a.Store, layout, run)
	if err != nil {
		return Reopening{}, err
	}
	last, err := a.lastState(ctx, layout, book)
	if err != nil {
		return Reopening{}, err
	}
	r := Reopening{Query: session.Query, Run: last.Run, Saved: last.Saved}
	if last.Run == "" {
		if r.Saved, err = a.restore(ctx, layout, session, book); err != nil {
			return Reopening{}, err
		}
		r.Run = book.Run
	}
	r.Saved.SecondsLeft = max(r.Saved.SecondsLeft, leastSeconds)
	r.Saved.Warned = false
	return r, nil
}

// lastState returns the state that follows the last entry of the ledger, the newest if there
// are several. Its Run is empty without one.
func (a *Activities) lastState(ctx context.Context, layout artifact.Layout, book team.Book) (savedState, error) {
	var last savedState
	for key, err := range a.Store.List(ctx, layout.File("runs/")) {
		if err != nil {
			return savedState{}, fmt.Errorf("looking for saved states: %w", err)
		}
		if !strings.HasSuffix(key, "/state.json") {
			continue
		}
		s, err := artifact.ReadJSON[savedState](ctx, a.Store, key)
		if _, malformed := errors.AsType[*artifact.MalformedError](err); malformed {
			continue
		}
		if err != nil {
			return savedState{}, err
		}
		current := s.Format == savedFormat && s.Core != nil && s.Prepared.Seal == book.Seal && s.Core.Accepted == len(book.Entries)
		if current && (last.Run == "" || s.Core.Events > last.Core.Events) {
			last = s
		}
	}
	return last, nil
}

// restore builds the state of a session whose run was cut off.
func (a *Activities) restore(ctx context.Context, layout artifact.Layout, session artifact.Session, book team.Book) (Saved, error) {
	t, err := a.Teams.ByHash(ctx, a.Store, layout, session.ConfigHash)
	if err != nil {
		return Saved{}, err
	}
	p := a.prepared(layout, t, coordination.Protocol)
	record := record{store: a.Store, layout: layout, book: book}
	lost, err := record.read(ctx, p.Coordination.Agents)
	if err != nil {
		return Saved{}, err
	}
	spent := max(0, record.last.Sub(session.CreatedAt))
	return Saved{
		Core: coordination.Restore(p.Coordination, lost), Prepared: p, Recorded: lost.Events,
		SecondsLeft: p.TimeoutSeconds - int(spent/time.Second),
	}, nil
}
