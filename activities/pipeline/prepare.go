package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/pipeline"
)

// PreparePipeline resolves the pipeline, validates the input and claims the run's
// directory for this workflow.
func (a *Activities) PreparePipeline(ctx context.Context, in PrepareInput) (Prepared, error) {
	defer activities.Beat(ctx)()
	p, err := a.resolve(in)
	if err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if err := a.check(ctx, p); err != nil {
		return Prepared{}, err
	}
	if err := checkID(in.ID, p); err != nil {
		return Prepared{}, activities.Invalid(err)
	}
	if err := activities.CheckMaterial(ctx, a.Bases(), in.Material); err != nil {
		return Prepared{}, err
	}
	layout := artifact.InPipeline(in.ID)
	if err := a.claim(ctx, layout, in, p); err != nil {
		return Prepared{}, err
	}
	if err := activities.UseMaterial(ctx, a.Store, in.Material, a.Now); err != nil {
		return Prepared{}, err
	}
	prepared := a.prepared(layout, p)
	prepared.Attributes = a.Attributes(ctx)
	return prepared, nil
}

func (a *Activities) prepared(layout artifact.Layout, p config.Pipeline) Prepared {
	return Prepared{
		ConfigHash: p.Hash(), Graph: graphOf(p),
		HeartbeatTimeoutSeconds: int(a.HeartbeatTimeout / time.Second),

		URL:     a.Store.URL(layout.File("pipeline.json")),
		Offline: p.PlaysOffline(),
	}
}

func (a *Activities) resolve(in PrepareInput) (config.Pipeline, error) {
	given := activities.Given(in.Config)
	switch {
	case given && in.Pipeline != "":
		return config.Pipeline{}, errors.New("the input has both a pipeline and a config: give one")
	case given:
		p, _, err := config.ParsePipeline("input config", in.Config, config.Cluster)
		return p, err
	case in.Pipeline != "":
		return a.Teams.Pipeline(in.Pipeline)
	}
	return config.Pipeline{}, errors.New(`the input has no pipeline: give one as config, as in {"request":"…","config":{"start":…,"steps":[…]}}`)
}

// check validates all agents and the teams of session steps.
func (a *Activities) check(ctx context.Context, p config.Pipeline) error {
	teams := p.Teams()
	for _, s := range p.Steps {
		if s.Kind != pipeline.Session || s.Config != nil {
			continue
		}
		team, err := a.Teams.ByName(s.Team)
		if err != nil {
			return a.Unknown(ctx, fmt.Errorf("step %s: %w", s.Name, err))
		}
		teams = append(teams, team.Within(0, p.CostLimit(s)))
	}
	for _, team := range teams {
		if err := a.Check(ctx, team, false); err != nil {
			return err
		}
	}
	return nil
}

// checkID returns an error if a run's ID is too long to derive the session IDs of its steps from
// it.
func checkID(id string, p config.Pipeline) error {
	const suffix = "-l9999-99" // the launch, and a number if the ID is taken
	for _, s := range p.Steps {
		most := artifact.MaxSessionID - len("-"+s.Name+suffix)
		if s.Kind == pipeline.Session && len(id) > most {
			return fmt.Errorf("the run's id has %d bytes, and the session of step %s needs a longer one: give an id of at most %d", len(id), s.Name, most)
		}
	}
	return nil
}

// claim creates the first files of the run.
func (a *Activities) claim(ctx context.Context, layout artifact.Layout, in PrepareInput, p config.Pipeline) error {
	canonical, err := p.Canonical()
	if err != nil {
		return activities.Invalid(err)
	}
	if err := activities.RefuseDeleted(ctx, a.Store, layout, "run "+in.ID); err != nil {
		return err
	}
	_, _, err = activities.Claim(ctx, a.Store, layout.File("pipeline.json"), file{
		Request: in.Request, ConfigHash: p.Hash(), Owner: in.Owner, CreatedAt: artifact.Timestamp(a.Now()), Material: in.Material,
	}, "run "+in.ID, "choose another ID")
	if err != nil {
		return err
	}
	if err := (activities.Claimed{WorkflowID: in.Owner.WorkflowID, ID: in.ID}).Keep(ctx, a.Store); err != nil {
		return err
	}
	return activities.CreateOnce(ctx, a.Store, layout.File("config.json"), json.RawMessage(canonical))
}
