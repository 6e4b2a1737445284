package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
)

// Prepare resolves the team, checks everything that can be wrong with the
// input, and claims the session's directory for this workflow.
func (a *Activities) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	t, err := a.Teams.Resolve(in.Team, in.Config)
	if err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if err := a.Check(ctx, t); err != nil {
		return Prepared{}, err
	}
	if len(in.Criteria) > 0 {
		if _, err := config.ParseCriteria("eval_criteria", in.Criteria); err != nil {
			return Prepared{}, activities.Invalid(err)
		}
	}
	layout := artifact.InBucket(in.Session)
	if err := a.claim(ctx, layout, in, t); err != nil {
		return Prepared{}, err
	}
	return Prepared{
		Protocol:       min(in.Protocol, coordination.Protocol),
		ConfigHash:     t.Hash(),
		Coordination:   coordinationConfig(t),
		TimeoutSeconds: t.Timeouts.OrchestratorTimeoutSeconds,
		GraceSeconds:   t.Timeouts.RoundTimeoutGraceSeconds,
		URL:            a.Store.URL(layout.File("session.json")),
		Offline:        slices.ContainsFunc(t.Agents, func(a config.Agent) bool { return a.Backend.Type == config.Offline }),
	}, nil
}

// claim writes the session's first files. They are written once: a retry finds its
// own, another workflow with the same session ID is refused.
func (a *Activities) claim(ctx context.Context, layout artifact.Layout, in PrepareInput, t config.Team) error {
	_, _, err := activities.Claim(ctx, a.Store, layout.File("session.json"), artifact.Session{
		Query: in.Query, ConfigHash: t.Hash(), WorkflowID: in.WorkflowID, FirstRunID: in.FirstRunID, CreatedAt: artifact.Timestamp(a.Now()),
	}, func(s artifact.Session) activities.Owner {
		return activities.Owner{WorkflowID: s.WorkflowID, FirstRunID: s.FirstRunID}
	}, "session "+in.Session, "choose another session ID")
	if err != nil {
		return err
	}
	canonical, err := t.Canonical()
	if err != nil {
		return activities.Invalid(err)
	}
	documents := map[string]json.RawMessage{"config.json": canonical}
	if len(in.Criteria) > 0 {
		documents["eval_criteria.json"] = in.Criteria
	}
	for name, body := range documents {
		if err := artifact.CreateJSON(ctx, a.Store, layout.File(name), body); err != nil && !errors.Is(err, artifact.ErrExists) {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
