package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/activities/s3store"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/cluster"
	"conclave/worker/settings"
)

// workerFlags are what a worker takes beyond the common flags.
type workerFlags struct {
	settings string // file
	maxSteps int
	offline  bool
}

func (c *cli) workerCommand() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Worker process for a cluster",
		Long: `Run sessions and their steps for a cluster until interrupted. The workspaces and
answers are kept in --bucket, which must honour conditional writes: the worker
tries that before it takes any work. Credentials and endpoint of the store come
from AWS_*, keys of models from the variables that teams and providers name.

--worker-config says which providers teams can name, which teams sessions can
name, and how much this worker may use. --config is the default team, of sessions
that name none and bring none, unless the worker configuration has one. On a
cluster neither may contain addresses of models outside of providers.
Without an address the worker joins the local stack.`,
		Example: `  AWS_REGION=eu-central-1 conclave worker --address temporal.example.com:7233 --bucket sessions --worker-config worker.yaml
  AWS_ENDPOINT_URL_S3=http://127.0.0.1:9000 conclave worker --address 127.0.0.1:7233 --bucket sessions --config team.yaml
  conclave worker --max-concurrent-steps 8`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.worker(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.settings, "worker-config", "", "the operator's configuration `FILE`: providers, teams, limits")
	cmd.Flags().IntVar(&f.maxSteps, "max-concurrent-steps", 0, "how many steps run at a time (default from --worker-config, else 32)")
	cmd.Flags().BoolVar(&f.offline, "offline", false, "the default team uses the built-in deterministic model")
	return cmd
}

func (c *cli) worker(ctx context.Context, f workerFlags) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	switch {
	case f.maxSteps < 0:
		return fmt.Errorf("--max-concurrent-steps is %d; it must be at least 1", f.maxSteps)
	case t.cluster && c.bucket == "":
		return errors.New("a cluster's worker keeps sessions in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	}
	var s settings.Settings
	if f.settings != "" {
		if s, err = settings.Load(f.settings); err != nil {
			return err
		}
	}
	if !t.cluster {
		for name, team := range s.Teams {
			s.Teams[name] = resolveModels(team)
		}
	}
	team, source, err := c.workerTeam(t, f, s)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(plainWriter{c.stderr}, nil))
	c.tools = worker.NewTools(s)
	if err := limited(c.tools, team, s); err != nil {
		return err
	}
	c.tools.Log = logger
	c.tools.Keep(t.dataDir, worker.DefaultCache())
	if err := c.equip(ctx, team, ofAWorker); err != nil {
		return err
	}
	p, err := c.connect(ctx, t, logger)
	if err != nil {
		return orderly(ctx, err)
	}
	defer p.close()
	if err := probe(ctx, p); err != nil {
		return orderly(ctx, err)
	}
	if err := p.setDefault(team); err != nil {
		return err
	}
	cfg, err := p.worker(team, runsSteps)
	if err != nil {
		return err
	}
	cfg.MaxConcurrentSteps, cfg.Tools = f.maxSteps, c.tools
	cfg.Configure(s)
	if f.settings != "" {
		for _, missing := range slices.Concat(cfg.MissingKeys(), cfg.Lacking(ctx)) {
			c.say("warning: %s", missing)
		}
	}
	return c.runWorker(ctx, p, cfg, fmt.Sprintf("default team from %s: %s", source, describeTeam(team)))
}

// workerTeam is the default team of a worker: that of the operator's
// configuration, else this invocation's. On a cluster it obeys the rules of a
// session's input. Without an operator's configuration there is only this team,
// and keys that it lacks are an error.
func (c *cli) workerTeam(t target, f workerFlags, s settings.Settings) (team config.Team, source string, err error) {
	team, own := s.Teams[activities.DefaultTeam]
	switch source = f.settings; {
	case own && c.config != "":
		return team, source, fmt.Errorf("--config, but %s has a default team, too; leave out --config or teams.default", f.settings)
	case own:
	case t.cluster:
		team, source, err = c.loadTeam(config.Cluster)
	default:
		team, source, err = c.loadTeam(config.Local)
	}
	if err != nil {
		return team, source, err
	}
	if f.offline {
		return team.Offline(), source, nil
	}
	if !t.cluster {
		team = resolveModels(team)
	}
	if err := (worker.Models{Providers: worker.NewProviders(s.Providers)}).CheckProviders(team); err != nil {
		return team, source, fmt.Errorf("use the team of %s: %w", source, err)
	}
	if f.settings == "" {
		err = missingKeys(team)
	}
	return team, source, err
}

// limited is an error if the limit of one of a worker's teams could not be kept.
func limited(tools *worker.Tools, team config.Team, s settings.Settings) error {
	cfg := worker.Config{Tools: tools, Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}}}
	cfg.Configure(s)
	return cfg.CheckPrices()
}

// runWorker works until it is told to stop or cannot go on.
func (c *cli) runWorker(ctx context.Context, p *place, cfg worker.Config, team string) error {
	started := func() {
		c.say("worker on the task queue %s %s, store %s, %s", p.queue, p.where(), p.store.URL(""), team)
	}
	if p.cluster {
		err := worker.Run(ctx, cfg, started)
		if errors.Is(err, worker.ErrEnded) {
			return end(exitNoAnswer, "%w", err)
		}
		return err
	}
	stop, err := startWorker(cfg)
	if err != nil {
		return err
	}
	defer stop()
	started()
	return c.serve(ctx, p)
}

// probe refuses a bucket that cannot be used before any work is taken.
func probe(ctx context.Context, p *place) error {
	store, ok := p.store.(*s3store.Store)
	if !ok || !p.cluster {
		return nil
	}
	return cluster.Probe(ctx, store)
}
