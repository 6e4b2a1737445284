package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
)

// pipelineRun is a checked wish to start one.
type pipelineRun struct {
	id      string
	file    pipelineFile // as it will run
	input   pipelineflow.Input
	offline bool
}

// pipelineRun checks everything that can be wrong with the input.
func (c *cli) pipelineRun(t target, flags pipelineFlags, file, request string) (pipelineRun, error) {
	r := pipelineRun{offline: flags.offline, input: pipelineflow.Input{Request: request}}
	switch {
	case len(request) > drive.MaxQuery:
		return r, fmt.Errorf("the REQUEST has %d bytes, at most %d are accepted; put large material where the agents can read it", len(request), drive.MaxQuery)
	case !utf8.ValidString(request):
		return r, errors.New("the REQUEST is not UTF-8 text; convert it, for instance with iconv")
	}
	r.id = flags.id
	if r.id == "" {
		r.id = newSessionID(time.Now())
	} else if err := checkSessionID(r.id); err != nil {
		return r, fmt.Errorf("use --id: %w", err)
	}
	reach := config.Local
	if t.cluster {
		reach = config.Cluster
	}
	var err error
	if r.file, err = readPipeline(file, reach); err != nil {
		return r, err
	}
	if !t.cluster {
		r.file.Pipeline, err = c.localPipeline(t, r.file.Pipeline, flags.offline)
		return r, err
	}
	if r.file.Pipeline, err = clusterPipeline(r.file.Pipeline, flags.offline); err != nil {
		return r, err
	}
	if r.input.Config, err = r.file.Canonical(); err == nil && len(r.input.Config) > drive.MaxConfig {
		err = fmt.Errorf("the pipeline in %s has %d bytes as JSON, at most %d are accepted", file, len(r.input.Config), drive.MaxConfig)
	}
	return r, err
}

// runPipeline checks the input, connects, starts the run and follows it. Nothing is
// started, the stack included, while anything is wrong with the input.
func (c *cli) runPipeline(ctx context.Context, flags pipelineFlags, file, request string) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	r, err := c.pipelineRun(t, flags, file, request)
	if err != nil {
		return err
	}
	for _, w := range r.file.warnings {
		c.say("warning: %v", w)
	}
	if !t.cluster {
		if err := c.equipPipeline(ctx, r.file.Pipeline); err != nil {
			return err
		}
	}
	return c.at(ctx, t, func(p *place) error {
		if err := probe(ctx, p); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if err := c.beginPipeline(ctx, p, &r); err != nil {
			return err
		}
		if !p.cluster {
			stop, err := c.work(p, c.passingTeam(p.target), runsSteps)
			if err != nil {
				return end(exitNoAnswer, "run pipeline run %s: %w; `%s` goes on with it", r.id, err, c.again("watch", r.id))
			}
			defer stop()
		}
		return c.followAndPrint(ctx, p, known{kind: pipelineflow.Type, id: r.id, workflow: r.id, offline: r.offline, started: time.Now()})
	})
}

// beginPipeline starts the run and says what has begun.
func (c *cli) beginPipeline(ctx context.Context, p *place, r *pipelineRun) error {
	if !p.cluster {
		var err error
		if r.input.Pipeline, err = (activities.Teams{Dir: p.teamsDir()}).Register(r.file.Pipeline); err != nil {
			return err
		}
	}
	err := c.execute(ctx, p, execution{
		kind: pipelineflow.Type, id: r.id, query: r.input.Request, offline: r.offline, input: r.input, flag: "--id",
	})
	if err != nil {
		return err
	}
	if r.offline {
		c.say("%s", offlinePipelineNote)
	}
	if !c.people() {
		return nil
	}
	c.say("pipeline run %s %s", r.id, p.where())
	c.say("steps from %s: %s", r.file.name, describePipeline(r.file.Pipeline))
	if !p.cluster {
		c.say("in the browser: %s", p.link(r.id))
	}
	return nil
}

// offlinePipelineNote is said wherever the built-in model had a part in a run.
const offlinePipelineNote = "offline: the built-in deterministic model plays the agents; no language model is asked"

// describePipeline is a pipeline in a few words.
func describePipeline(p config.Pipeline) string {
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
