package pipeline

import (
	"context"
	"fmt"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// runFlags are the flags of run besides the common ones.
type runFlags struct {
	id      string
	offline bool
}

// order is the checked input of a run to start.
type order struct {
	id      string
	file    file // as it will run
	input   pipelineflow.Input
	tools   *worker.Tools
	offline bool
}

// newOrder checks the flags, the file and the request.
func newOrder(c *hall.CLI, t hall.Target, f runFlags, name, request string) (order, error) {
	o := order{offline: f.offline, input: pipelineflow.Input{Request: request}}
	err := hall.CheckQuery("REQUEST", request)
	if err != nil {
		return o, err
	}
	if o.id, err = hall.ChooseRunID("--id", f.id); err != nil {
		return o, err
	}
	reach := config.Local
	if t.Cluster {
		reach = config.Cluster
	}
	if o.file, err = readFile(name, reach); err != nil {
		return o, err
	}
	if !t.Cluster {
		o.file.Pipeline, err = prepareLocal(c, t, o.file.Pipeline, f.offline)
		return o, err
	}
	if o.file.Pipeline, err = prepareCluster(o.file.Pipeline, f.offline); err != nil {
		return o, err
	}
	if o.input.Config, err = o.file.Canonical(); err == nil && len(o.input.Config) > drive.MaxConfig {
		err = fmt.Errorf("the pipeline in %s has %d bytes as JSON, at most %d are accepted", name, len(o.input.Config), drive.MaxConfig)
	}
	return o, err
}

// run checks the input, connects, starts a run and follows it. Nothing is started, the
// stack included, while the input is wrong.
func run(ctx context.Context, c *hall.CLI, f runFlags, name, request string) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	o, err := newOrder(c, t, f, name, request)
	if err != nil {
		return err
	}
	for _, w := range o.file.warnings {
		c.Infof("warning: %v", w)
	}
	if !t.Cluster {
		o.tools = team.NewTools()
		for _, agents := range teamsOf(o.file.Pipeline) {
			if err := team.CheckTools(ctx, o.tools, agents, team.ThisProcess); err != nil {
				return err
			}
		}
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		if err := start(ctx, conn, &o); err != nil {
			return err
		}
		stop, err := team.RunWorker(conn, o.tools)
		if err != nil {
			return hall.Exitf(hall.ExitNoAnswer, "run pipeline run %s: %w; `%s` goes on with it", o.id, err, c.CommandLine("watch", o.id))
		}
		defer stop()
		return watch(ctx, conn, runs.NewRun(Kind(), o.id, o.offline))
	})
}

// start starts a run and prints where it runs.
func start(ctx context.Context, conn *hall.Connection, o *order) error {
	if !conn.Cluster {
		var err error
		if o.input.Pipeline, err = team.Registry(conn.Target).Register(o.file.Pipeline); err != nil {
			return err
		}
	}
	err := runs.Start(ctx, conn, runs.Order{
		Kind: Kind(), ID: o.id, Query: o.input.Request, Offline: o.offline, Input: o.input, IDFlag: "--id",
	})
	if err != nil {
		return err
	}
	if o.offline {
		conn.Infof("%s", offlineNote)
	}
	if conn.Scripted() {
		return nil
	}
	conn.Infof("pipeline run %s %s", o.id, conn.Target)
	conn.Infof("steps from %s: %s", o.file.name, describe(o.file.Pipeline))
	if !conn.Cluster {
		conn.Infof("in the browser: %s", conn.URL(o.id))
	}
	return nil
}

// offlineNote is printed wherever the built-in model plays the agents.
const offlineNote = "offline: the built-in deterministic model plays the agents; no language model is asked"

// describe lists the steps of a pipeline in one line.
func describe(p config.Pipeline) string {
	var steps []string
	for _, s := range p.Steps {
		words := s.Name + " (" + s.Kind + ")"
		if s.Name == p.Start {
			words = s.Name + " (" + s.Kind + ", start)"
		}
		steps = append(steps, words)
	}
	return strings.Join(steps, ", ")
}
