package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	team "conclave/engine/session"
)

// Continuable is an ended session whose conversation a new session can continue.
type Continuable struct {
	id     string
	layout artifact.Layout

	Session artifact.Session
	Turns   []artifact.Turn // the last one is that of the session
	Change  artifact.Change // the decision's change of the base
}

// ContinueError reports a session whose conversation cannot be continued.
type ContinueError struct{ Session, Reason string }

func (e *ContinueError) Error() string {
	return fmt.Sprintf("session %s cannot be continued: %s", e.Session, e.Reason)
}

// Continue reads a session that has ended with a decision. It returns a *ContinueError if the
// session cannot be continued.
func Continue(ctx context.Context, store artifact.Store, id string) (Continuable, error) {
	if err := artifact.CheckSessionID(id); err != nil {
		return Continuable{}, &ContinueError{Session: id, Reason: err.Error()}
	}
	layout := artifact.InBucket(id)
	session, err := artifact.ReadJSON[artifact.Session](ctx, store, layout.File("session.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return Continuable{}, &ContinueError{Session: id, Reason: "the store has no such session"}
	}
	var status State
	if err == nil {
		status, err = artifact.ReadJSON[State](ctx, store, layout.File("status.json"))
	}
	if errors.Is(err, artifact.ErrNotFound) || err == nil && status.Final == nil {
		return Continuable{}, &ContinueError{Session: id, Reason: "it has no decision"}
	}
	var answer artifact.Answer
	if err == nil {
		answer, err = artifact.ReadJSON[artifact.Answer](ctx, store, layout.Final(status.Final.Agent, "answer.json"))
	}
	var turns []artifact.Turn
	if err == nil {
		turns, err = team.ReadTurns(ctx, store, layout, session)
	}
	var change artifact.Change
	if err == nil {
		change, err = artifact.ReadJSON[artifact.Change](ctx, store, layout.Final(status.Final.Agent, "workspace.json"))
		if errors.Is(err, artifact.ErrNotFound) { // the decision changes no files
			err = nil
		}
	}
	if err != nil {
		return Continuable{}, fmt.Errorf("read session %s, which is to be continued: %w", id, err)
	}
	return Continuable{id: id, layout: layout, Session: session, Change: change, Turns: append(turns, artifact.Turn{Query: session.Query, Answer: answer.Answer})}, nil
}

// baseOf stores the files of a decision as a base and returns its reference, or the session's own
// base if the decision changed no files.
func (a *Activities) baseOf(ctx context.Context, c Continuable) (string, error) {
	if c.Change.Empty() {
		return c.Session.Base, nil
	}
	layout, err := activities.Start(ctx, a.Bases(), c.layout, c.Session.Material)
	if err != nil {
		return "", err
	}
	if err := c.Change.Check(layout.Base()); err != nil {
		return "", activities.Invalid(fmt.Errorf("read the files of session %s: %w", c.id, err))
	}
	hash, err := snapshot.Promote(ctx, a.Store, layout, c.Change.Tree(layout.Base()), a.Now)
	if err != nil {
		return "", err
	}
	return snapshot.Reference(hash), nil
}

// resolveConversation resolves the team of a session. If the input continues a session, it takes the
// earlier turns from it, and also the base and the team unless the input has its own.
func (a *Activities) resolveConversation(ctx context.Context, in *PrepareInput) (config.Team, error) {
	if in.Continues == "" {
		if err := team.CheckTurns(in.Query, in.History); err != nil {
			return config.Team{}, activities.Invalid(err)
		}
		return a.resolveTeam(ctx, *in)
	}
	c, err := Continue(ctx, a.Store, in.Continues)
	if refused, ok := errors.AsType[*ContinueError](err); ok {
		return config.Team{}, activities.Invalid(refused)
	}
	if err != nil {
		return config.Team{}, err
	}
	in.History = team.NewestTurns(in.Query, c.Turns)
	if in.Base == "" {
		if in.Base, err = a.baseOf(ctx, c); err != nil {
			return config.Team{}, err
		}
	}
	if in.Team != "" || activities.Given(in.Config) {
		return a.resolveTeam(ctx, *in)
	}
	return a.Teams.ByHash(ctx, a.Store, artifact.InBucket(in.Continues), c.Session.ConfigHash)
}

// readConversation gives the input the texts that its server has stored.
func (a *Activities) readConversation(ctx context.Context, in *PrepareInput) error {
	unknown := activities.Invalid(fmt.Errorf("conversation: no texts of the hash %.80q are stored for this session; leave it out", in.Conversation))
	if len(in.Conversation) != len(artifact.SumOf(nil)) || strings.Trim(in.Conversation, "0123456789abcdef") != "" {
		return unknown
	}
	data, err := a.Store.Get(ctx, artifact.InBucket(in.Session).Conversation(in.Conversation))
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return err
	}
	var c artifact.Conversation
	if err != nil || artifact.SumOf(data) != in.Conversation || json.Unmarshal(data, &c) != nil || c.Size() > artifact.MaxConversation {
		return unknown
	}
	in.Query, in.Instructions, in.ClientTools = c.Query, c.Instructions, c.ClientTools
	if in.Continues == "" {
		in.History = c.History
	}
	if err := in.Check(artifact.MaxConversation); err != nil {
		return activities.Invalid(err)
	}
	return nil
}

func (a *Activities) resolveTeam(ctx context.Context, in PrepareInput) (config.Team, error) {
	t, err := a.Teams.Resolve(in.Team, in.Config)
	switch {
	case err != nil && in.Team != "" && !activities.Given(in.Config):
		return t, activities.UnknownName(ctx, a, err)
	case err != nil:
		return t, activities.Invalid(err)
	}
	return t, nil
}
