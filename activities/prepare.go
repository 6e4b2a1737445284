package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/coordination"
)

// PrepareInput is what a session was started with.
type PrepareInput struct {
	// Protocol is the newest version of the coordination's rules that the
	// workflow knows; 0 in old histories, which are of version 1.
	Protocol int `json:"protocol,omitempty"`

	Session    string          `json:"session"`
	WorkflowID string          `json:"workflow_id"`
	FirstRunID string          `json:"first_run_id"`
	Query      string          `json:"query"`
	Team       string          `json:"team,omitempty"`
	Config     json.RawMessage `json:"config,omitempty"`
	Criteria   json.RawMessage `json:"criteria,omitempty"`
}

// Prepared is what the workflow needs of a resolved team.
type Prepared struct {
	// Protocol is the version of the rules that the session has from now on; 0
	// stands for 1.
	Protocol int `json:"protocol,omitempty"`

	ConfigHash     string              `json:"config_hash"`
	Coordination   coordination.Config `json:"coordination"`
	TimeoutSeconds int                 `json:"timeout_seconds"`

	// GraceSeconds is how long before the end of the session's time its steps are
	// told to come to an end.
	GraceSeconds int `json:"grace_seconds,omitempty"`

	// URL is where the session's directory is, for people.
	URL string `json:"url"`

	// Offline says that the built-in model plays agents of the team.
	Offline bool `json:"offline,omitempty"`
}

// Prepare resolves the team, checks everything that can be wrong with the
// input, and claims the session's directory for this workflow.
func (a *Activities) Prepare(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer pulse(ctx)()
	t, err := a.resolve(in)
	if err != nil {
		return Prepared{}, invalid(err)
	}
	if err := a.check(ctx, t); err != nil {
		return Prepared{}, err
	}
	if len(in.Criteria) > 0 {
		if _, err := config.ParseCriteria("eval_criteria", in.Criteria); err != nil {
			return Prepared{}, invalid(err)
		}
	}
	layout := artifact.InBucket(in.Session)
	if err := a.claimSession(ctx, layout, in, t); err != nil {
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

// resolve finds the team that the input names or brings. On a machine's own
// stack it is registered, so that a session goes on with it although the file
// behind its name changes.
func (a *Activities) resolve(in PrepareInput) (config.Team, error) {
	if len(in.Config) > 0 && string(in.Config) != "null" {
		if in.Team != "" {
			return config.Team{}, errors.New("the input has both a team and a config: give one")
		}
		return config.Parse("input config", in.Config, config.Cluster)
	}
	name := in.Team
	if name == "" {
		name = DefaultTeam
	}
	t, err := a.Teams.byName(name)
	if err == nil && a.Teams.Dir != "" {
		_, err = a.Teams.Register(t)
	}
	return t, err
}

// check builds every agent's model once, and looks what its tools need: a
// configuration that cannot work fails the session before anything is paid for. A
// key that only another worker has is no fault of the configuration.
func (a *Activities) check(ctx context.Context, t config.Team) error {
	for _, agent := range t.Agents {
		_, err := a.Model(agent)
		for _, err := range []error{err, a.equipped(ctx, agent)} {
			var key *MissingKeyError
			if err != nil && !errors.As(err, &key) {
				return invalid(fmt.Errorf("agent %s: %w", agent.ID, err))
			}
		}
	}
	return a.checkPrices(t)
}

func (a *Activities) equipped(ctx context.Context, agent config.Agent) error {
	if a.Equipped == nil {
		return nil
	}
	return a.Equipped(ctx, agent)
}

// checkPrices refuses a cost limit that could not be kept.
func (a *Activities) checkPrices(t config.Team) error {
	if t.Orchestrator.Budget.MaxCostUSD == nil {
		return nil
	}
	for _, agent := range t.Agents {
		if a.Priced == nil || !a.Priced(agent) {
			return invalid(&UnpricedError{Agent: agent.ID, Model: agent.Backend.Model})
		}
	}
	return nil
}

// claimSession writes the session's first files. They are written once: a
// retry finds its own, another workflow with the same session ID is refused.
func (a *Activities) claimSession(ctx context.Context, layout artifact.Layout, in PrepareInput, t config.Team) error {
	key := layout.File("session.json")
	err := artifact.CreateJSON(ctx, a.Store, key, artifact.Session{
		Query: in.Query, ConfigHash: t.Hash(), WorkflowID: in.WorkflowID, FirstRunID: in.FirstRunID, CreatedAt: artifact.Timestamp(a.Now()),
	})
	if errors.Is(err, artifact.ErrExists) {
		owner, readErr := artifact.ReadJSON[artifact.Session](ctx, a.Store, key)
		if readErr == nil && (owner.WorkflowID != in.WorkflowID || owner.FirstRunID != in.FirstRunID) {
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf(
				"session %s belongs to workflow %s, first run %s: choose another session ID", in.Session, owner.WorkflowID, owner.FirstRunID), SessionTaken, nil)
		}
		err = readErr
	}
	if err != nil {
		return fmt.Errorf("claiming session %s: %w", in.Session, err)
	}
	canonical, err := t.Canonical()
	if err != nil {
		return invalid(err)
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

// readCriteria reads the session's evaluation criteria, if it has any.
func readCriteria(ctx context.Context, store artifact.Store, layout artifact.Layout) (config.Criteria, error) {
	data, err := store.Get(ctx, layout.File("eval_criteria.json"))
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading eval_criteria.json: %w", err)
	}
	parsed, err := config.ParseCriteria("eval_criteria.json", data)
	if err != nil {
		return nil, invalid(err)
	}
	return parsed, nil
}
