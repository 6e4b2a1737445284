package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"conclave/activities"
	"conclave/engine/config"
)

// pipelineFile is a pipeline as its file has it.
type pipelineFile struct {
	config.Pipeline
	name     string
	warnings config.Problems
}

// readPipeline reads and checks a file that was named on the command line.
func readPipeline(name string, reach config.Reach) (pipelineFile, error) {
	f := pipelineFile{name: name}
	data, err := readInput(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("read the pipeline: %w; name a file with start and steps", err)
	case err != nil:
		return f, fmt.Errorf("read the pipeline: %w", err)
	}
	if f.Pipeline, err = config.ParsePipeline(name, data, reach); err != nil {
		return f, err
	}
	f.warnings = config.PipelineWarnings(name, data, reach)
	return f, nil
}

// teamsOf are all the teams that steps of a pipeline may need something of: its own
// agents, and those of session steps.
func teamsOf(p config.Pipeline) []config.Team {
	var teams []config.Team
	if len(p.Agents) > 0 {
		teams = append(teams, config.Team{Agents: p.Agents})
	}
	for _, s := range p.Steps {
		if s.Config != nil {
			teams = append(teams, *s.Config)
		}
	}
	return teams
}

// localPipeline is a pipeline as a worker of this machine runs it: every team is
// there, models are at addresses, keys are names of variables that are set.
func (c *cli) localPipeline(t target, p config.Pipeline, offline bool) (config.Pipeline, error) {
	steps := append([]config.PipelineStep{}, p.Steps...)
	for i, s := range steps {
		if s.Kind != config.SessionStep || s.Config != nil {
			continue
		}
		if s.Team != "" && s.Team != activities.DefaultTeam {
			return p, fmt.Errorf("step %s: the local stack has no team %q, only %q; give the step a config of its own", s.Name, s.Team, activities.DefaultTeam)
		}
		team, err := c.sessionStepTeam(t)
		if err != nil {
			return p, fmt.Errorf("step %s: %w", s.Name, err)
		}
		steps[i].Config, steps[i].Team = &team, ""
	}
	p.Steps = steps
	if offline {
		return p.Offline(), nil
	}
	p.Agents = resolveModels(config.Team{Agents: p.Agents}).Agents
	for i, s := range p.Steps {
		if s.Config != nil {
			team := resolveModels(*s.Config)
			p.Steps[i].Config = &team
		}
	}
	for _, team := range teamsOf(p) {
		if err := startable(team); err != nil {
			return p, err
		}
	}
	return p, nil
}

// sessionStepTeam is the team of a session step that names none.
func (c *cli) sessionStepTeam(t target) (config.Team, error) {
	if c.config == "" {
		if team, found, err := t.defaultTeam(); found || err != nil {
			return team, err
		}
	}
	team, _, err := c.loadTeam(config.Local)
	return team, err
}

// clusterPipeline is a pipeline as it is sent to a cluster, which has the teams
// that are named.
func clusterPipeline(p config.Pipeline, offline bool) (config.Pipeline, error) {
	if !offline {
		return p, nil
	}
	for _, s := range p.Steps {
		if s.Kind == config.SessionStep && s.Config == nil {
			return p, fmt.Errorf("step %s: --offline replaces the models of a team that is brought along, not of one that the worker names; give the step a config", s.Name)
		}
	}
	return p.Offline(), nil
}

// equipPipeline refuses a pipeline whose tools need what is not there.
func (c *cli) equipPipeline(ctx context.Context, p config.Pipeline) error {
	for _, team := range teamsOf(p) {
		if err := c.equip(ctx, team, inThisProcess); err != nil {
			return err
		}
	}
	return nil
}
