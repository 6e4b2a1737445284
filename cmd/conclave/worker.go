package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities/s3store"
	"conclave/engine/config"
	"conclave/worker"
)

// probeTimeout bounds the start-up check of the bucket.
const probeTimeout = 10 * time.Second

func (c *cli) workerCommand() *cobra.Command {
	maxSteps, offline := 0, false
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Worker process for a cluster",
		Long: `Run sessions and their steps for a cluster until interrupted. The workspaces and
answers are kept in --bucket, which must honour conditional writes: the worker
tries that before it takes any work. Credentials and endpoint of the store come
from AWS_*, keys of models from the variables that teams name.

--config is the default team, of sessions that name none and bring none.
Without an address the worker joins the local stack.`,
		Example: `  AWS_REGION=eu-central-1 conclave worker --address temporal.example.com:7233 --bucket sessions
  AWS_ENDPOINT_URL_S3=http://127.0.0.1:9000 conclave worker --address 127.0.0.1:7233 --bucket sessions --config team.yaml
  conclave worker --max-concurrent-steps 8`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.worker(cmd.Context(), maxSteps, offline) },
	}
	cmd.Flags().IntVar(&maxSteps, "max-concurrent-steps", 0, "how many steps run at a time (default 32)")
	cmd.Flags().BoolVar(&offline, "offline", false, "the default team uses the built-in deterministic model")
	return cmd
}

func (c *cli) worker(ctx context.Context, maxSteps int, offline bool) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	switch {
	case maxSteps < 0:
		return fmt.Errorf("--max-concurrent-steps is %d; it must be at least 1", maxSteps)
	case t.cluster && c.bucket == "":
		return errors.New("a cluster's worker keeps sessions in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	}
	team, source, err := c.localTeam(offline)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(plainWriter{c.stderr}, nil))
	p, err := c.connect(ctx, t, logger)
	if err != nil {
		return orderly(ctx, err)
	}
	defer p.close()
	if err := probe(ctx, p); err != nil {
		return orderly(ctx, err)
	}
	return c.runWorker(ctx, p, team, source, maxSteps)
}

// runWorker works until it is told to stop or cannot go on.
func (c *cli) runWorker(ctx context.Context, p *place, team config.Team, source string, maxSteps int) error {
	fatal := make(chan error, 1)
	stop, err := c.work(p, team, runsSteps, func(cfg *worker.Config) {
		cfg.MaxConcurrentSteps = maxSteps
		cfg.OnFatal = func(err error) {
			select {
			case fatal <- err:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	c.say("worker on the task queue %s %s, store %s, default team from %s: %s",
		p.queue, p.where(), p.store.URL(""), source, describeTeam(team))
	if !p.cluster {
		return c.serve(ctx, p)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return end(exitNoAnswer, "the worker cannot go on: %w", err)
	}
}

// probe refuses a bucket that cannot be used before any work is taken.
func probe(ctx context.Context, p *place) error {
	store, ok := p.store.(*s3store.Store)
	if !ok || !p.cluster {
		return nil
	}
	trying, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return store.Probe(trying)
}
