package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/material"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/engine/pipeline"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// runFlags are the flags of pipeline run besides the common ones.
type runFlags struct {
	request *hall.Query
	id      string
	offline bool

	material material.Flags
}

// order is the validated input of a run.
type order struct {
	id      string
	file    file // the pipeline's file as it will run
	input   pipelineflow.Input
	offline bool
}

// newOrder checks the flags, the file and the request.
func newOrder(c *hall.CLI, t hall.Target, w *team.Worker, f runFlags, name, request string) (order, error) {
	o := order{offline: f.offline, input: pipelineflow.Input{Request: request}}
	var err error
	if o.id, err = hall.ChooseRunID("--session-id", f.id); err != nil {
		return o, err
	}
	reach := config.Local
	if t.Cluster {
		reach = config.Cluster
	}
	parse := config.ParsePipeline
	if c.Interactive() {
		parse = config.ParseWatchedPipeline
	}
	if o.file, err = readFile(name, reach, parse); err != nil {
		return o, err
	}
	if !t.Cluster {
		o.file.Pipeline, err = prepareLocal(c, t, w, o.file.Pipeline, f.offline)
		return o, err
	}
	if o.file.Pipeline, err = prepareCluster(o.file.Pipeline, f.offline); err != nil {
		return o, err
	}
	if o.input.Config, err = o.file.Canonical(); err == nil && len(o.input.Config) > drive.MaxInput {
		err = fmt.Errorf("the pipeline in %s has %d bytes as JSON, at most %d are accepted", name, len(o.input.Config), drive.MaxInput)
	}
	return o, err
}

// run checks the input, connects, starts a run and follows it. With invalid input
// it starts nothing, not even the stack.
func run(ctx context.Context, c *hall.CLI, f runFlags, name, request string) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	w, err := team.OpenWorker(c, t)
	if err != nil {
		return err
	}
	o, err := newOrder(c, t, w, f, name, request)
	if err != nil {
		return err
	}
	if err := f.material.Check(); err != nil {
		return err
	}
	for _, w := range o.file.warnings {
		c.Infof("warning: %v", w)
	}
	if err := w.Serves(ctx, o.file.Teams()...); err != nil {
		return err
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		if o.input.Material, err = f.material.Upload(ctx, conn); err != nil {
			return err
		}
		if !conn.Cluster {
			if o.input.Pipeline, err = team.Registry(conn.Target).Register(o.file.Pipeline); err != nil {
				return err
			}
		}
		started := runs.Order{
			Kind: Kind(), ID: o.id, Query: o.input.Request, Source: "steps from " + o.file.name + ": " + describe(o.file.Pipeline),
			Offline: o.offline, Input: o.input, IDFlag: "--session-id",
		}
		defer started.Kind.Offer(conn, started.Kind)()
		if err := runs.Start(ctx, conn, started); err != nil {
			return err
		}
		material.Remember(conn, o.id, f.material.Directory())
		return runs.Watch(ctx, conn, started, w)
	})
}

// offlineNote is printed wherever agents use the built-in model.
const offlineNote = "offline: the built-in deterministic model plays the agents; no language model is asked"

// describe lists the steps of a pipeline on one line.
func describe(p config.Pipeline) string {
	var steps []string
	for _, s := range p.Steps {
		words := s.Name + " (" + string(s.Kind) + ")"
		if s.Name == p.Start {
			words = s.Name + " (" + string(s.Kind) + ", start)"
		}
		steps = append(steps, words)
	}
	return strings.Join(steps, ", ")
}

// file is the content of a pipeline's file.
type file struct {
	config.Pipeline
	name     string
	warnings config.Problems
}

// readFile reads and parses the file of a pipeline.
func readFile(name string, reach config.Reach, parse func(string, []byte, config.Reach) (config.Pipeline, config.Problems, error)) (file, error) {
	f := file{name: name}
	data, err := team.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("read the pipeline: %w; name a file with start and steps", err)
	case err != nil:
		return f, fmt.Errorf("read the pipeline: %w", err)
	}
	f.Pipeline, f.warnings, err = parse(name, data, reach.Beside(name))
	return f, err
}

// prepareLocal sets the team of every session step, resolves the models' addresses, and checks
// their keys.
func prepareLocal(c *hall.CLI, t hall.Target, w *team.Worker, p config.Pipeline, offline bool) (config.Pipeline, error) {
	p.Steps = append([]config.PipelineStep{}, p.Steps...)
	for i, s := range p.Steps {
		if s.Kind != pipeline.Session || s.Config != nil {
			continue
		}
		agents, err := sessionTeam(c, t, w, s.Team, offline)
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
	for _, agents := range p.Teams() {
		if err := w.Startable(agents); err != nil {
			return p, err
		}
	}
	return p, nil
}

// sessionTeam returns the team for a session step without a config. An empty name
// selects the default team.
func sessionTeam(c *hall.CLI, t hall.Target, w *team.Worker, name string, offline bool) (config.Team, error) {
	if name != "" || c.Config == "" {
		if agents, _, found := w.Team(cmp.Or(name, activities.DefaultTeam)); found {
			return agents, nil
		}
	}
	if name != "" && name != activities.DefaultTeam {
		return config.Team{}, fmt.Errorf("there is no team %q here, only %s; give the step a config of its own, or define the team in the file of --worker-config", name, w.Known())
	}
	if c.Config == "" {
		if agents, found, err := team.Default(t); found || err != nil {
			return agents, err
		}
	}
	agents, _, err := team.Load(c, config.Local, offline)
	return agents, err
}

// prepareCluster completes a pipeline for a cluster, whose workers define the named teams.
func prepareCluster(p config.Pipeline, offline bool) (config.Pipeline, error) {
	if !offline {
		return p, nil
	}
	for _, s := range p.Steps {
		if s.Kind == pipeline.Session && s.Config == nil {
			return p, fmt.Errorf("step %s: --offline replaces the models of a configuration, not those of a worker's team; give the step a config", s.Name)
		}
	}
	return p.Offline(), nil
}
