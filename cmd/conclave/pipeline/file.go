package pipeline

import (
	"errors"
	"fmt"
	"io/fs"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
)

// file is the content of a pipeline's file.
type file struct {
	config.Pipeline
	name     string
	warnings config.Problems
}

// readFile reads and checks the file of a pipeline.
func readFile(name string, reach config.Reach) (file, error) {
	f := file{name: name}
	data, err := team.ReadFile(name)
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

// teamsOf are the agents of a pipeline and the teams of its session steps.
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

// prepareLocal completes a pipeline for a worker of this machine: every session step
// has a team, models have addresses, and the variables of their keys are set.
func prepareLocal(c *hall.CLI, t hall.Target, p config.Pipeline, offline bool) (config.Pipeline, error) {
	p.Steps = append([]config.PipelineStep{}, p.Steps...)
	for i, s := range p.Steps {
		if s.Kind != config.SessionStep || s.Config != nil {
			continue
		}
		if s.Team != "" && s.Team != activities.DefaultTeam {
			return p, fmt.Errorf("step %s: the local stack has no team %q, only %q; give the step a config of its own", s.Name, s.Team, activities.DefaultTeam)
		}
		agents, err := sessionTeam(c, t)
		if err != nil {
			return p, fmt.Errorf("step %s: %w", s.Name, err)
		}
		p.Steps[i].Config, p.Steps[i].Team = &agents, ""
	}
	if offline {
		return p.Offline(), nil
	}
	p.Agents = team.Resolve(config.Team{Agents: p.Agents}).Agents
	for i, s := range p.Steps {
		if s.Config != nil {
			resolved := team.Resolve(*s.Config)
			p.Steps[i].Config = &resolved
		}
	}
	for _, agents := range teamsOf(p) {
		if err := team.Startable(agents); err != nil {
			return p, err
		}
	}
	return p, nil
}

// sessionTeam is the team of a session step that names none.
func sessionTeam(c *hall.CLI, t hall.Target) (config.Team, error) {
	if c.Config == "" {
		if agents, found, err := team.Default(t); found || err != nil {
			return agents, err
		}
	}
	agents, _, err := team.Load(c, config.Local)
	return agents, err
}

// prepareCluster completes a pipeline for a cluster, whose workers have the named
// teams.
func prepareCluster(p config.Pipeline, offline bool) (config.Pipeline, error) {
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
