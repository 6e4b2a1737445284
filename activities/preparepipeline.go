package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"conclave/engine/artifact"
	"conclave/engine/config"
	"conclave/engine/pipeline"
)

// PipelineFile is pipeline.json, claimed once by the workflow that owns the run.
type PipelineFile struct {
	Request    string    `json:"request"`
	ConfigHash string    `json:"config_hash"`
	WorkflowID string    `json:"workflow_id"`
	FirstRunID string    `json:"first_run_id"`
	CreatedAt  time.Time `json:"created_at"`
}

// PreparePipeline resolves the pipeline, checks everything that can be wrong with
// the input, and claims the run's directory for this workflow.
func (a *Activities) PreparePipeline(ctx context.Context, in PreparePipelineInput) (PreparedPipeline, error) {
	defer pulse(ctx)()
	p, err := a.resolvePipeline(in)
	if err != nil {
		return PreparedPipeline{}, invalid(err)
	}
	if err := a.checkPipeline(ctx, p); err != nil {
		return PreparedPipeline{}, err
	}
	if err := roomForTeams(in.ID, p); err != nil {
		return PreparedPipeline{}, invalid(err)
	}
	layout := artifact.InPipeline(in.ID)
	if err := a.claimPipeline(ctx, layout, in, p); err != nil {
		return PreparedPipeline{}, err
	}
	return PreparedPipeline{
		Protocol: min(in.Protocol, pipeline.Protocol), ConfigHash: p.Hash(), Graph: graphOf(p),
		URL:     a.Store.URL(layout.File("pipeline.json")),
		Offline: p.PlaysOffline(),
	}, nil
}

func (a *Activities) resolvePipeline(in PreparePipelineInput) (config.Pipeline, error) {
	given := len(in.Config) > 0 && string(in.Config) != "null"
	switch {
	case given && in.Pipeline != "":
		return config.Pipeline{}, errors.New("the input has both a pipeline and a config: give one")
	case given:
		return config.ParsePipeline("input config", in.Config, config.Cluster)
	case in.Pipeline != "":
		return a.Teams.pipeline(in.Pipeline)
	}
	return config.Pipeline{}, errors.New(`the input has no pipeline: give one as config, as in {"request":"…","config":{"start":…,"steps":[…]}}`)
}

// checkPipeline checks every agent, and every team of a session step, as those of a
// session are.
func (a *Activities) checkPipeline(ctx context.Context, p config.Pipeline) error {
	if err := a.check(ctx, config.Team{Agents: p.Agents}); err != nil {
		return err
	}
	for _, s := range p.Steps {
		if s.Kind != config.SessionStep {
			continue
		}
		team, err := a.teamOf(s)
		if err != nil {
			return invalid(fmt.Errorf("step %s: %w", s.Name, err))
		}
		if err := a.check(ctx, team); err != nil {
			return err
		}
	}
	return nil
}

// roomForTeams refuses a run's ID from which no ID of a session can be made for
// some step: that would be known when the step is due, and those before it paid for.
func roomForTeams(id string, p config.Pipeline) error {
	const numbers = "-l9999-99" // of the launch, and beside a session of the same name
	for _, s := range p.Steps {
		most := artifact.MaxSessionID - len("-"+s.Name+numbers)
		if s.Kind == config.SessionStep && len(id) > most {
			return fmt.Errorf("the run's id has %d bytes, and that of step %s's session is longer: give one of at most %d", len(id), s.Name, most)
		}
	}
	return nil
}

// teamOf is the team of a session step.
func (a *Activities) teamOf(s config.PipelineStep) (config.Team, error) {
	if s.Config != nil {
		return *s.Config, nil
	}
	name := s.Team
	if name == "" {
		name = DefaultTeam
	}
	return a.Teams.byName(name)
}

// graphOf is what the machine needs of a definition.
func graphOf(p config.Pipeline) pipeline.Graph {
	g := pipeline.Graph{
		Start: p.Start, MaxTransitions: p.Limits.MaxTransitions, MaxDepth: p.Limits.MaxCallDepth, Park: p.OnStepFailure == "park",
	}
	for _, s := range p.Steps {
		n := pipeline.Node{
			Name: s.Name, Kind: pipeline.Kind(s.Kind), Destinations: s.Destinations, MaxIterations: s.MaxIterations, History: s.History,
		}
		if s.Kind != config.AgentStep { // it asks no model
			n.MaxIterations = pipeline.DefaultIterations
		}
		for _, b := range s.Next {
			n.Next = append(n.Next, pipeline.Branch{When: pipeline.Status(b.When.Status), To: b.To})
		}
		g.Steps = append(g.Steps, n)
	}
	return g
}

// claimPipeline writes the run's first files, once.
func (a *Activities) claimPipeline(ctx context.Context, layout artifact.Layout, in PreparePipelineInput, p config.Pipeline) error {
	canonical, err := p.Canonical()
	if err != nil {
		return invalid(err)
	}
	key := layout.File("pipeline.json")
	err = artifact.CreateJSON(ctx, a.Store, key, PipelineFile{
		Request: in.Request, ConfigHash: p.Hash(), WorkflowID: in.WorkflowID, FirstRunID: in.FirstRunID, CreatedAt: artifact.Timestamp(a.Now()),
	})
	if errors.Is(err, artifact.ErrExists) {
		var owner PipelineFile
		owner, err = artifact.ReadJSON[PipelineFile](ctx, a.Store, key)
		if err == nil && (owner.WorkflowID != in.WorkflowID || owner.FirstRunID != in.FirstRunID) {
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf(
				"run %s belongs to workflow %s, first run %s: choose another ID", in.ID, owner.WorkflowID, owner.FirstRunID), SessionTaken, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("claiming run %s: %w", in.ID, err)
	}
	err = artifact.CreateJSON(ctx, a.Store, layout.File("config.json"), json.RawMessage(canonical))
	if err != nil && !errors.Is(err, artifact.ErrExists) {
		return fmt.Errorf("writing config.json of run %s: %w", in.ID, err)
	}
	return nil
}

// definition finds the pipeline of a running run: among those registered on this
// machine, else as the run's directory keeps it, which can only name what the
// worker has.
func (a *Activities) definition(ctx context.Context, layout artifact.Layout, hash string) (config.Pipeline, error) {
	if a.Teams.Dir != "" {
		if p, err := a.Teams.pipeline(hash); err == nil {
			return p, nil
		}
	}
	data, err := storage{a.Store}.Get(ctx, layout.File("config.json"))
	if err != nil {
		return config.Pipeline{}, fmt.Errorf("reading the run's configuration: %w", err)
	}
	p, err := config.ParsePipeline("config.json", data, config.Cluster)
	if err != nil {
		return config.Pipeline{}, invalid(err)
	}
	if p.Hash() != hash {
		return config.Pipeline{}, invalid(fmt.Errorf("config.json of the run has hash %.12s…, the run began with %.12s…", p.Hash(), hash))
	}
	return p, nil
}
