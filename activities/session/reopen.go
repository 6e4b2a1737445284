package session

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/step"
	"conclave/engine/team"
)

// leastSeconds is the minimum time that a reopened session has left.
const leastSeconds = 600

// savedFormat is the format of state.json. States in other formats are ignored.
const savedFormat = 1

// savedState is runs/<run>/state.json.
type savedState struct {
	Format int    `json:"format"`
	Run    string `json:"run"`
	Saved
}

// ReopenInput identifies an ended session for a new run of its workflow.
type ReopenInput struct {
	Session    string `json:"session,omitempty"` // empty for the one that the workflow has claimed
	WorkflowID string `json:"workflow_id"`
	Agent      string `json:"agent,omitempty"` // agent whose failed step is retried, or recipient of Text; empty for all
	Text       string `json:"text,omitempty"`  // message with which the session goes on
}

// Reopening is a session that a new run of its workflow continues.
type Reopening struct {
	Session   string `json:"session"`
	Query     string `json:"query"`
	Continues string `json:"continues,omitempty"`
	Run       string `json:"run"` // the run that ended
	Saved     Saved  `json:"saved"`

	Unclaimed []coordination.LaunchID `json:"unclaimed,omitempty"` // running steps that have claimed no number
}

// Reopen seals the ledger against late records of earlier workflow runs and loads the state in
// which the last run ended. If that run was cut off, Reopen rebuilds the state from the store. It
// returns a session whose decision stands unchanged.
func (a *Activities) Reopen(ctx context.Context, in ReopenInput) (Reopening, error) {
	defer activities.Beat(ctx)()
	run := activity.GetInfo(ctx).WorkflowExecution.RunID
	if in.Session == "" {
		claimed, err := activities.ClaimedBy(ctx, a.Store, in.WorkflowID)
		if err != nil {
			return Reopening{}, err
		}
		in.Session = claimed.ID
	}
	r, session, err := a.ended(ctx, in, run)
	if err != nil || r.Saved.Core.Decision().Stands() {
		return r, err
	}
	if err := refuse(in, r); err != nil {
		return Reopening{}, err
	}
	layout := artifact.InBucket(in.Session)
	seal, err := team.Seal(ctx, a.Store, layout, run, a.Now())
	if err == nil {
		r, err = a.load(ctx, in, session, run) // a late record may have come first
	}
	if err != nil {
		return Reopening{}, err
	}
	t, err := a.Teams.ByHash(ctx, a.Store, layout, session.ConfigHash)
	if err == nil {
		err = a.Check(ctx, t, true)
	}
	if err != nil {
		return Reopening{}, err
	}
	if r.Unclaimed, err = a.unclaimed(ctx, layout, r); err != nil {
		return Reopening{}, err
	}
	r.Saved.Prepared.Seal = seal
	r.Saved.Prepared.HeartbeatTimeoutSeconds = a.prepared(layout, t, session.Limits, session.Caller).HeartbeatTimeoutSeconds
	return r, nil
}

// CanReopen returns an error if an ended session cannot be continued. It changes nothing.
func (a *Activities) CanReopen(ctx context.Context, in ReopenInput) error {
	r, _, err := a.ended(ctx, in, "")
	if err != nil {
		return err
	}
	return refuse(in, r)
}

func refuse(in ReopenInput, r Reopening) error {
	if err := r.Saved.Core.Refuse(coordination.Reopened{Run: r.Run, Agent: in.Agent, Text: in.Text}); err != nil {
		return activities.CannotGoOn("session "+in.Session, err)
	}
	return nil
}

// ended loads an ended session for a workflow run.
func (a *Activities) ended(ctx context.Context, in ReopenInput, run string) (Reopening, artifact.Session, error) {
	layout := artifact.InBucket(in.Session)
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "session "+in.Session); err != nil {
		return Reopening{}, artifact.Session{}, err
	}
	key := layout.File("session.json")
	session, err := activities.Owned[artifact.Session](ctx, a.Store, key, in.WorkflowID, "session "+in.Session, "a query")
	if err != nil {
		return Reopening{}, session, err
	}
	r, err := a.load(ctx, in, session, run)
	return r, session, err
}

// load reads the newest state if it includes all ledger entries, and otherwise rebuilds the state.
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
	r := Reopening{Session: in.Session, Query: session.Query, Continues: session.Continues, Run: last.Run, Saved: last.Saved}
	if last.Run == "" {
		if r.Saved, err = a.restore(ctx, in.Session, layout, session, book); err != nil {
			return Reopening{}, err
		}
		r.Run = book.Run
	}
	r.Saved.SecondsLeft = max(r.Saved.SecondsLeft, leastSeconds)
	r.Saved.Warned = false
	return r, nil
}

// unclaimed returns the running steps that have not claimed a number.
func (a *Activities) unclaimed(ctx context.Context, layout artifact.Layout, r Reopening) ([]coordination.LaunchID, error) {
	var none []coordination.LaunchID
	for _, l := range r.Saved.Core.RunningSteps() {
		spec := team.Step{Layout: layout, Launch: l, Token: r.Run + "-" + string(l.ID)}.Place()
		claimed, err := step.Claimed(ctx, a.Store, spec)
		if err != nil {
			return nil, err
		}
		if !claimed {
			none = append(none, l.ID)
		}
	}
	return none, nil
}

// lastState returns the newest saved state that includes exactly the entries of the ledger. Its Run
// is empty if no state does.
func (a *Activities) lastState(ctx context.Context, layout artifact.Layout, book team.Book) (savedState, error) {
	var last savedState
	for s, err := range activities.SavedStates[savedState](ctx, a.Store, layout) {
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

// restore builds the state of a session whose workflow run was cut off.
func (a *Activities) restore(ctx context.Context, id string, layout artifact.Layout, session artifact.Session, book team.Book) (Saved, error) {
	t, err := a.Teams.ByHash(ctx, a.Store, layout, session.ConfigHash)
	if err != nil {
		return Saved{}, err
	}
	p := a.prepared(layout, t, session.Limits, session.Caller)
	p.CreatedAt = session.CreatedAt
	record := record{store: a.Store, layout: layout, book: book}
	lost, err := record.read(ctx, p.Coordination.Agents)
	if err == nil && t.Orchestrator.RunsChecks() {
		p.Coordination.Checks, err = a.restoreChecks(ctx, id, session, &lost)
	}
	if err == nil {
		p.Drafted, err = a.restoreDrafted(ctx, layout, t, &lost)
	}
	if err != nil {
		return Saved{}, err
	}
	spent := max(0, record.last.Sub(session.CreatedAt))
	return Saved{
		Core: coordination.Restore(p.Coordination, lost), Prepared: p, Recorded: lost.Events,
		SecondsLeft: p.TimeoutSeconds - int(spent/time.Second),
	}, nil
}

// restoreDrafted reads the preparations of a session and their cost.
func (a *Activities) restoreDrafted(ctx context.Context, layout artifact.Layout, t config.Team, lost *coordination.Lost) ([]Drafted, error) {
	made, err := artifact.ReadJSON[team.CriteriaMade](ctx, a.Store, layout.File("eval_criteria.json"))
	given := err != nil || made.Usage == llm.Usage{} && made.Fallback == ""
	drafted, err := a.drafted(ctx, layout, t, preparations(t, given))
	for _, d := range drafted {
		lost.Preparation = lost.Preparation.Add(d.Usage)
	}
	return drafted, err
}
