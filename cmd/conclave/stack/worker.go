package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/cluster"
	"conclave/worker/metrics"
	"conclave/worker/settings"
)

func workerCommand(c *hall.CLI) *cobra.Command {
	var f cluster.WorkerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Worker process for a cluster",
		Long: `Run sessions and their steps for a cluster until interrupted. Workspaces and answers
are stored in --bucket, which must support conditional writes; the worker checks
that before it takes any work. Credentials and endpoint of the store come from
AWS_*, keys of models from the variables that teams and providers name.

--worker-config defines the providers that teams can name, the teams that sessions
can name, and the limits of this worker. --config is the default team, for sessions
without a team; leave it out if the worker configuration defines that team. On a
cluster only providers may contain addresses of models.
Without an address the worker joins the local stack.

The worker ends on SIGTERM: it takes no more work, hands running steps over to other
workers within 5 seconds, and exits with 0, at the latest after 20 seconds. With
metrics_address in --worker-config it serves /metrics for Prometheus, /healthz and /readyz.

With --deployment the worker joins a Temporal worker deployment, as the version with the
build ID of its binary, which its log names. A version gets work once it is the current one:

  temporal worker deployment set-current-version --deployment-name NAME --build-id ID`,
		Example: `  AWS_REGION=eu-central-1 conclave worker --address temporal.example.com:7233 --bucket sessions --worker-config worker.yaml
  AWS_ENDPOINT_URL_S3=http://127.0.0.1:9000 conclave worker --address 127.0.0.1:7233 --bucket sessions --config team.yaml
  conclave worker --address temporal.example.com:7233 --bucket sessions --deployment conclave --log-format json
  conclave worker --max-concurrent-steps 8`,
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorker(cmd.Context(), c, f) },
	}
	f.Flags(cmd.Flags())
	return cmd
}

func runWorker(ctx context.Context, c *hall.CLI, f cluster.WorkerFlags) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	s, err := workerSettings(c, t, f)
	if err != nil {
		return err
	}
	standard, source, err := workerTeam(c, t, f, s)
	if err != nil {
		return err
	}
	logger, err := f.Log.New(plainWriter{c.Stderr})
	if err != nil {
		return err
	}
	tools, err := workerTools(ctx, t, standard, s, logger)
	if err != nil {
		return err
	}
	t.Metrics = newMetrics(s)
	conn, err := c.Connect(ctx, t, logger)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer conn.Close()
	if err := conn.CheckBucket(ctx); err != nil {
		return unlessInterrupted(ctx, err)
	}
	cfg, err := team.DefaultWorker(conn, standard)
	if err != nil {
		return err
	}
	cfg.MaxConcurrentSteps, cfg.Tools, cfg.Deployment, cfg.Log = f.MaxSteps, tools, f.Deployment, logger
	if t.Cluster {
		cfg.Roster, cfg.Server, cfg.Namespace = cmp.Or(f.StateDir, cluster.DefaultRoster()), cluster.Name(t.Options), t.Options.Namespace
	}
	cfg.Configure(s)
	announce := f.Log.Announce(logger, c.Infof)
	if f.Settings != "" {
		for _, missing := range cfg.Missing(ctx) {
			announce("warning: %s", missing)
		}
	}
	return work(ctx, conn, cfg, announce, fmt.Sprintf("default team from %s: %s", source, team.Describe(standard)))
}

// workerSettings checks the flags and reads the operator's configuration.
func workerSettings(c *hall.CLI, t hall.Target, f cluster.WorkerFlags) (s settings.Settings, err error) {
	if err := f.Check(); err != nil {
		return s, err
	}
	switch {
	case !t.Cluster && f.StateDir != "":
		return s, errors.New("--state-dir belongs to a cluster's worker; the local stack uses its data directory: leave it out")
	case !t.Cluster && f.Deployment != "":
		return s, errors.New("--deployment belongs to a cluster's worker; every worker of a local stack runs the same build: leave it out")
	case t.Cluster && c.Bucket == "":
		return s, errors.New("a cluster's worker keeps sessions in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	case f.Settings == "":
		return settings.Default(), nil
	}
	if s, err = settings.Load(f.Settings); err != nil || t.Cluster {
		return s, err
	}
	for name, named := range s.Teams {
		s.Teams[name] = team.Resolve(named)
	}
	return s, nil
}

// newMetrics returns the metrics of a worker, or nil if it does not serve them.
func newMetrics(s settings.Settings) *metrics.Metrics {
	if s.MetricsAddress == "" {
		return nil
	}
	return metrics.New(cluster.Version())
}

// workerTools returns the tools of a worker. It refuses a default team that the worker cannot run.
func workerTools(ctx context.Context, t hall.Target, standard config.Team, s settings.Settings, logger *slog.Logger) (*worker.Tools, error) {
	tools := worker.NewTools(s)
	priced := worker.Config{Tools: tools, Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: standard}}}
	priced.Configure(s)
	if err := priced.CheckPrices(); err != nil {
		return nil, err
	}
	tools.Log = logger
	tools.Keep(t.DataDir, worker.DefaultCache())
	err := tools.Check(ctx, standard)
	if activities.Lacks(err, activities.MissingKey) { // sessions wait for a key
		err = nil
	}
	return tools, err
}

// workerTeam returns the operator's default team, or else that of this invocation. Missing keys of
// the latter are an error. On a cluster it must satisfy the rules for a session's input.
func workerTeam(c *hall.CLI, t hall.Target, f cluster.WorkerFlags, s settings.Settings) (standard config.Team, source string, err error) {
	standard, own := s.Teams[activities.DefaultTeam]
	switch source = f.Settings; {
	case own && c.Config != "":
		return standard, source, fmt.Errorf("--config, but %s has a default team, too; leave out --config or teams.default", f.Settings)
	case own:
	case t.Cluster:
		standard, source, err = team.Load(c, config.Cluster, f.Offline)
	default:
		standard, source, err = team.Load(c, config.Local, f.Offline)
	}
	if err != nil {
		return standard, source, err
	}
	if f.Offline {
		return standard.Offline(), source, nil
	}
	if !t.Cluster {
		standard = team.Resolve(standard)
	}
	var cfg worker.Config
	cfg.Configure(s)
	if err := cfg.Models.CheckProviders(standard); err != nil {
		return standard, source, fmt.Errorf("use the team of %s: %w", source, err)
	}
	if f.Settings == "" {
		err = team.MissingKeys(standard)
	}
	return standard, source, err
}

// work runs a worker until the command is interrupted or the worker cannot continue.
func work(ctx context.Context, conn *hall.Connection, cfg worker.Config, announce func(string, ...any), describedTeam string) error {
	started := func() {
		if cfg.Deployment != "" {
			announce("build %s of the worker deployment %s", cluster.BuildID(), cfg.Deployment)
		}
		announce("worker on the task queue %s %s, store %s, %s", conn.Queue, conn.Target, conn.Store.URL(""), describedTeam)
		if cfg.MetricsAddress != "" {
			announce("metrics and health at %s", cfg.MetricsAddress)
		}
	}
	if conn.Cluster {
		err := worker.Run(ctx, cfg, started)
		if errors.Is(err, worker.ErrEnded) {
			return hall.Exitf(hall.ExitNoAnswer, "%w", err)
		}
		return err
	}
	stop, err := worker.Start(cfg)
	if err != nil {
		return err
	}
	defer stop()
	started()
	return await(ctx, conn)
}
