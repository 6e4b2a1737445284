package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	team "conclave/engine/session"
	"conclave/engine/step"
	"conclave/engine/text"
)

// later reads the actions of a session after its newest state was saved.
type later struct {
	*Activities
	session string
	layout  artifact.Layout
	run     string // the run that saved the state
	saved   *Saved

	earlier map[string]bool // the other runs whose steps the state has, or a reset has undone
	steps   []finished
	counted []team.Step // the commits among them, whose documents may be missing
	answers []int       // the answers of the agent that is read whose evaluations may be among them
}

// finished is a step and the time of its end.
type finished struct {
	coordination.Claim
	at time.Time
}

func (l *later) catchUp(ctx context.Context) error {
	view := l.saved.Core.View()
	said, err := l.readMessages(ctx, view.Messages)
	if err != nil {
		return err
	}
	for _, a := range view.Agents {
		l.answers = []int{l.saved.Core.LastAnswer(a.ID)}
		if err := l.readAgent(ctx, a.ID, a.Step); err != nil {
			return err
		}
		for _, answer := range l.answers {
			if err := l.readEvaluations(ctx, a.ID, answer); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(l.steps, func(x, y finished) int { return x.at.Compare(y.at) })
	var claims []coordination.Claim
	for _, s := range l.steps {
		claims = append(claims, s.Claim)
	}
	l.saved.Core.CatchUp(coordination.Reopened{Run: l.run}, said, claims)
	return nil
}

func (l *later) readMessages(ctx context.Context, after int) ([]coordination.Said, error) {
	var said []coordination.Said
	all := artifact.Series[step.Message]{Store: l.Store, Key: l.layout.Message}
	for m, err := range all.From(ctx, after+1) {
		if err != nil {
			return nil, err
		}
		said = append(said, coordination.Said{Agent: m.Agent, Text: m.Text})
	}
	return said, nil
}

// readAgent reads the steps of an agent whose numbers are higher than that of its last step in the
// state. The last one is left to its next launch if it has neither an action nor a transcript: that goes on
// with its journal.
func (l *later) readAgent(ctx context.Context, agent string, after int) error {
	var open *step.Transcript
	number := 0 // that of open
	for n := after + 1; ; n++ {
		t, err := step.ReadTranscript(ctx, l.Store, l.layout, l.layout.Step(agent, n, ""))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			if open != nil && (open.Over || !l.isRunning(open.Claim.Token)) {
				end := suspendedEnd(number, open.Claim)
				if open.Over { // then its journal may be gone
					end.Usage = open.Usage()
				}
				l.addStep(agent, *open, "", end)
			}
			return nil
		case err == nil && l.knowsEnd(t.Claim.Token):
			continue
		case err == nil && open != nil:
			end := suspendedEnd(number, open.Claim)
			if !t.Claim.Uncounted || t.Claim.ResumeFrom != end.Token { // otherwise t counts it
				end.Usage = open.Usage()
			}
			l.addStep(agent, *open, "", end)
		}
		if open, number = &t, n; err == nil && t.Commit != nil {
			open = nil
			err = l.readCommit(ctx, agent, n, t)
		}
		if err != nil {
			return fmt.Errorf("read step %d of %s: %w", n, agent, err)
		}
	}
}

// knowsEnd reports whether the state has the end of the step with a token, or must not have it.
func (l *later) knowsEnd(token string) bool {
	run, launch := splitToken(token)
	number, _ := strconv.Atoi(strings.TrimPrefix(string(launch), "l"))
	return l.earlier[run] || run == l.run && number <= l.saved.Core.Launches && !l.isRunning(token)
}

func (l *later) isRunning(token string) bool {
	run, launch := splitToken(token)
	running := func(r coordination.Launch) bool { return r.ID == launch }
	return run == l.run && slices.ContainsFunc(l.saved.Core.RunningSteps(), running)
}

func splitToken(token string) (run string, launch coordination.LaunchID) {
	at := strings.LastIndex(token, "-")
	return token[:max(at, 0)], coordination.LaunchID(token[at+1:])
}

func suspendedEnd(number int, c artifact.Claim) coordination.Suspended {
	_, launch := splitToken(c.Token)
	return coordination.Suspended{End: coordination.End{Launch: launch, Step: number}, Token: c.Token}
}

// readEvaluations reads the evaluations of an answer, each of which is a step in the answer's directory.
func (l *later) readEvaluations(ctx context.Context, agent string, answer int) error {
	if answer == 0 || !l.saved.Core.Config.Critiques {
		return nil
	}
	in := coordination.Launch{Agent: agent, Purpose: coordination.Evaluation, After: answer}
	place := team.Step{Layout: l.layout, Launch: in}.Place()
	for n := answer + 1; ; n++ {
		t, err := step.ReadTranscript(ctx, l.Store, l.layout, place.Dir(n))
		switch {
		case errors.Is(err, artifact.ErrNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("read the evaluations of step %d of %s: %w", answer, agent, err)
		case l.knowsEnd(t.Claim.Token), t.Commit == nil && !t.Over && l.isRunning(t.Claim.Token):
			continue
		case t.Commit == nil:
			end := suspendedEnd(n, t.Claim)
			end.Usage = t.Usage()
			l.addStep(agent, t, coordination.Evaluation, end)
		default:
			outcome, err := team.ReadOutcome(*t.Commit)
			if err != nil {
				return err
			}
			_, in.ID = splitToken(t.Claim.Token)
			l.counted = append(l.counted, team.Step{Launch: in, Token: t.Claim.Token})
			r := StepResult{Token: t.Claim.Token, Step: n, Outcome: outcome, Usage: t.Commit.Usage}
			l.addStep(agent, t, coordination.Evaluation, r.Event(in.ID))
		}
		l.steps[len(l.steps)-1].Answer = answer
	}
}

func (l *later) addStep(agent string, t step.Transcript, p coordination.Purpose, e coordination.Event) {
	at := t.Claim.StartedAt
	if t.Commit != nil {
		at = t.Commit.Timestamp
	}
	l.steps = append(l.steps, finished{at: at, Claim: coordination.Claim{
		Agent: agent, Purpose: p, Resumes: t.Claim.ResumeFrom, Seen: coordination.SeenOf(t.Claim.SeenSteps), Event: e,
	}})
}

// readCommit adds a step with an action. A step of a finale whose launch the state lacks is left to the
// next launch with its purpose, which adopts the commit.
func (l *later) readCommit(ctx context.Context, agent string, number int, t step.Transcript) error {
	outcome, err := team.ReadOutcome(*t.Commit)
	if err != nil {
		return err
	}
	purpose := purposeOf(*t.Commit)
	if coordination.Action(t.Commit.Kind) == coordination.NewAnswer {
		l.answers = append(l.answers, number)
	}
	if purpose != coordination.Coordinate && !l.isRunning(t.Claim.Token) {
		l.addStep(agent, t, purpose, suspendedEnd(number, t.Claim))
		return nil
	}
	_, launch := splitToken(t.Claim.Token)
	in := StepInput{
		Session: l.session, ConfigHash: l.saved.Prepared.ConfigHash, Checks: l.saved.Core.Config.Ballot != "",
		Launch: coordination.Launch{ID: launch, Agent: agent, Purpose: purpose},
	}
	in.Launch.After = number - 1
	l.counted = append(l.counted, team.Step{Launch: in.Launch, Token: t.Claim.Token})
	r := StepResult{Token: t.Claim.Token, Step: number, Outcome: outcome, Usage: t.Commit.Usage}
	if err := l.examineAnswer(ctx, in, *t.Commit, &r); err != nil {
		return err
	}
	l.addStep(agent, t, purpose, r.Event(launch))
	return nil
}

func purposeOf(c artifact.Commit) coordination.Purpose {
	var said team.Answer
	switch coordination.Action(c.Kind) {
	case coordination.Submit, coordination.RestartTeam:
		return coordination.Evaluate
	case coordination.NewAnswer:
		if json.Unmarshal(c.Payload, &said) == nil && coordination.IsFinal(said.Label) {
			return coordination.Present
		}
	}
	return coordination.Coordinate
}

// lastState returns the newest state of a session and the actions of the session since. A session
// that was cut off before its first record is as at its start.
func (a *Activities) lastState(ctx context.Context, id string, session artifact.Session) (*later, error) {
	l := &later{Activities: a, session: id, layout: artifact.InBucket(id)}
	last, others, err := activities.LastState[Saved](ctx, a.Store, l.layout, session.FirstRunID)
	if err != nil {
		return nil, err
	}
	l.run, l.saved, l.earlier = last.Run, last.Saved, others
	if l.saved == nil {
		l.saved, err = a.initialState(ctx, l.layout, session)
		return l, err
	}
	file := 0
	for e, err := range team.LedgerOf(a.Store, l.layout).From(ctx, 1) {
		if file++; err != nil || file >= l.saved.Prepared.Seal {
			return l, err
		}
		l.earlier[e.Run] = e.Run != l.run
	}
	return l, nil
}

func (a *Activities) initialState(ctx context.Context, layout artifact.Layout, session artifact.Session) (*Saved, error) {
	t, err := a.Teams.ByHash(ctx, a.Store, layout, session.ConfigHash)
	if err != nil {
		return nil, err
	}
	p := a.preparedSession(layout, t, session.Limits, session.Caller)
	if p.CreatedAt = session.CreatedAt; a.Server != nil { // a command that only looks has none
		p.Attributes = a.Attributes(ctx)
	}
	p.Preparations = duePreparations(t, session.Criteria != nil && *session.Criteria)
	if session.Checks != "" {
		p.Coordination.Checks, err = a.userChecks(ctx, layout, session.Checks)
	}
	core := coordination.New(p.Coordination)
	core.Drain() // the first launches, which may have claimed numbers
	return &Saved{Core: core, Prepared: p, SecondsLeft: p.TimeoutSeconds}, err
}

// leastSeconds is the minimum time that a reopened session has left.
const leastSeconds = 600

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

	counted []team.Step // the steps whose commits Saved has caught up with
}

// Reopen seals the ledger against late records of earlier workflow runs, loads the newest state and
// applies the actions of the session since. It returns a session whose decision stands unchanged.
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
	r, session, err := a.endedSession(ctx, in)
	if err != nil || r.Saved.Core.Decision().Stands() {
		return r, err
	}
	if err := checkContinuable(in, r); err != nil {
		return Reopening{}, err
	}
	layout := artifact.InBucket(in.Session)
	seal, err := team.Seal(ctx, a.Store, layout, run, a.Now())
	if err == nil {
		r, err = a.loadNewestState(ctx, in, session) // a late record may have come first
	}
	if err != nil {
		return Reopening{}, err
	}
	t, err := a.Teams.ByHash(ctx, a.Store, layout, session.ConfigHash)
	if err == nil {
		err = activities.CheckTeam(ctx, a, a, t, true)
	}
	if err != nil {
		return Reopening{}, err
	}
	start, err := activities.Start(ctx, a.Bases(), layout, session.Material)
	if err == nil {
		err = a.finishCommits(ctx, start, t, r.counted)
	}
	if err != nil {
		return Reopening{}, err
	}
	if r.Unclaimed, err = a.unclaimedSteps(ctx, layout, r); err != nil {
		return Reopening{}, err
	}
	r.Saved.Prepared.Seal = seal
	r.Saved.Prepared.HeartbeatTimeoutSeconds, r.Saved.Prepared.Notify = a.preparedSession(layout, t, session.Limits, session.Caller).HeartbeatTimeoutSeconds, a.Receivers
	return r, nil
}

// finishCommits writes the documents of commits whose attempts may have died before they wrote them.
func (a *Activities) finishCommits(ctx context.Context, layout artifact.Layout, t config.Team, steps []team.Step) error {
	for _, m := range steps {
		m.Layout, m.Agents, m.Scratch = layout, agentsOf(t), a.Scratch
		spec := m.Place()
		spec.KeepsJournal, spec.Documents = true, func(number int, c artifact.Commit) ([]step.Document, error) {
			return m.Documents(ctx, a.Store, number, c)
		}
		if _, err := step.Find(ctx, step.Ports{Store: a.Store, Now: a.Now}, spec); err != nil {
			return err
		}
	}
	return nil
}

// CanReopen returns an error if an ended session cannot be continued. It changes nothing.
func (a *Activities) CanReopen(ctx context.Context, in ReopenInput) error {
	r, _, err := a.endedSession(ctx, in)
	if err != nil {
		return err
	}
	return checkContinuable(in, r)
}

func checkContinuable(in ReopenInput, r Reopening) error {
	if err := r.Saved.Core.Refuse(coordination.Reopened{Run: r.Run, Agent: in.Agent, Text: in.Text}); err != nil {
		return activities.CannotGoOn("session "+in.Session, err)
	}
	return nil
}

func (a *Activities) endedSession(ctx context.Context, in ReopenInput) (Reopening, artifact.Session, error) {
	layout := artifact.InBucket(in.Session)
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "session "+in.Session); err != nil {
		return Reopening{}, artifact.Session{}, err
	}
	key := layout.File("session.json")
	session, err := activities.Owned[artifact.Session](ctx, a.Store, key, in.WorkflowID, "session "+in.Session, "a query")
	if err != nil {
		return Reopening{}, session, err
	}
	r, err := a.loadNewestState(ctx, in, session)
	return r, session, err
}

// loadNewestState also applies the actions of the session after the state was saved.
func (a *Activities) loadNewestState(ctx context.Context, in ReopenInput, session artifact.Session) (Reopening, error) {
	l, err := a.lastState(ctx, in.Session, session)
	if err == nil && !l.saved.Core.Decision().Stands() {
		err = l.catchUp(ctx)
	}
	if err != nil {
		return Reopening{}, err
	}
	r := Reopening{Session: in.Session, Query: text.Truncate(session.Query, team.MaxConversation), Continues: session.Continues, Run: l.run, Saved: *l.saved, counted: l.counted}
	r.Saved.SecondsLeft = max(r.Saved.SecondsLeft, leastSeconds)
	r.Saved.Warned = false
	return r, nil
}

func (a *Activities) unclaimedSteps(ctx context.Context, layout artifact.Layout, r Reopening) ([]coordination.LaunchID, error) {
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
