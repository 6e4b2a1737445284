package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/cluster"
)

func workerCommand(c *cli.CLI) *cobra.Command {
	var f cluster.WorkerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker process for a cluster",
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
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorker(cmd.Context(), c, f) },
	}
	f.Flags(cmd.Flags())
	return cmd
}

// runWorker reads and checks the configuration before it connects, so that a fault in it starts no
// stack.
func runWorker(ctx context.Context, c *cli.CLI, f cluster.WorkerFlags) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	w, err := readWorker(c, t, f)
	if err != nil {
		return err
	}
	standard, source, err := workerTeam(c, t, w, f)
	if err != nil {
		return err
	}
	logger, err := f.Log.New(plainWriter{c.Stderr})
	if err != nil {
		return err
	}
	if err := checkTools(ctx, t, w, standard, logger); err != nil {
		return err
	}
	t.Metrics = newMetrics(w.Settings)
	conn, err := c.Connect(ctx, t, logger)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer conn.Close()
	if err := conn.CheckBucket(ctx); err != nil {
		return unlessInterrupted(ctx, err)
	}
	cfg, err := teams.DefaultWorker(conn, standard)
	if err != nil {
		return err
	}
	cfg.MaxConcurrentSteps, cfg.Tools, cfg.Deployment, cfg.Log = f.MaxSteps, w.Tools, f.Deployment, logger
	if t.Cluster {
		cfg.Roster, cfg.Server, cfg.Namespace = cmp.Or(f.StateDir, cluster.DefaultRoster()), cluster.Name(t.Options), t.Options.Namespace
	}
	cfg.Configure(w.Settings)
	announce := f.Log.Announce(logger, c.Infof)
	if f.Settings != "" {
		for _, missing := range cfg.Missing(ctx) {
			announce("warning: %s", missing)
		}
	}
	return workUntilEnd(ctx, conn, cfg, announce, fmt.Sprintf("default team from %s: %s", source, teams.Describe(standard)))
}

func readWorker(c *cli.CLI, t cli.Target, f cluster.WorkerFlags) (*teams.Worker, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	switch {
	case !t.Cluster && f.StateDir != "":
		return nil, errors.New("--state-dir belongs to a cluster's worker; the local stack uses its data directory: leave it out")
	case !t.Cluster && f.Deployment != "":
		return nil, errors.New("--deployment belongs to a cluster's worker; every worker of a local stack runs the same build: leave it out")
	case t.Cluster && c.Bucket == "":
		return nil, errors.New("a cluster's worker keeps sessions in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	}
	return teams.ReadWorker(f.Settings, reachOf(t))
}

// reachOf returns the settings that a target's configurations may have.
func reachOf(t cli.Target) config.Reach {
	if t.Cluster {
		return config.Cluster
	}
	return config.Local
}

// newMetrics returns the metrics of a worker, or nil if it does not serve them.
func newMetrics(s worker.Settings) *cluster.Metrics {
	if s.MetricsAddress == "" {
		return nil
	}
	return cluster.NewMetrics(cluster.Version())
}

// checkTools refuses a default team that the worker's tools cannot run, and a limit in dollars
// without a price.
func checkTools(ctx context.Context, t cli.Target, w *teams.Worker, standard config.Team, logger *slog.Logger) error {
	priced := worker.Config{Tools: w.Tools, Teams: activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: standard}}}
	priced.Configure(w.Settings)
	if err := priced.CheckPrices(); err != nil {
		return err
	}
	w.Tools.Log = logger
	w.Tools.Keep(t.DataDir, worker.DefaultCache())
	err := w.Tools.Check(ctx, standard)
	if activities.Lacks(err, activities.MissingKey) { // sessions wait for a key
		return nil
	}
	return err
}

// workerTeam returns the default team of a worker, which must have its providers. Missing keys of a
// team that is not the operator's are an error.
func workerTeam(c *cli.CLI, t cli.Target, w *teams.Worker, f cluster.WorkerFlags) (standard config.Team, source string, err error) {
	standard, source, err = chooseTeam(c, t, w, f.Offline)
	if err != nil || f.Offline {
		return standard, source, err
	}
	if err = checkProviders(w, standard, source); err == nil && f.Settings == "" {
		err = teams.MissingKeys(standard)
	}
	return standard, source, err
}

// chooseTeam returns the operator's default team, or else that of this invocation. On a cluster it
// must satisfy the rules for a session's input.
func chooseTeam(c *cli.CLI, t cli.Target, w *teams.Worker, offline bool) (standard config.Team, source string, err error) {
	standard, source, err = w.Default(c, reachOf(t), offline)
	if err == nil && !offline && !t.Cluster {
		standard = w.Resolve(standard)
	}
	return standard, source, err
}

func checkProviders(w *teams.Worker, standard config.Team, source string) error {
	if err := w.Models.CheckProviders(standard); err != nil {
		return fmt.Errorf("use the team of %s: %w", source, err)
	}
	return nil
}

func workUntilEnd(ctx context.Context, conn *cli.Connection, cfg worker.Config, announce func(string, ...any), describedTeam string) error {
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
			return cli.Exitf(cli.ExitNoAnswer, "%w", err)
		}
		return err
	}
	stop, err := worker.Start(cfg)
	if err != nil {
		return err
	}
	defer stop()
	started()
	return awaitEnd(ctx, conn)
}
