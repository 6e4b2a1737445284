// Command conclave-worker is a worker process for a cluster. It executes sessions and their steps until it is
// stopped, like `conclave worker` with an address, but the binary contains no embedded server.
//
// Flags, TEMPORAL_* and temporal.toml locate Temporal; AWS_* has the bucket's credentials and endpoint. The
// file of --worker-config has the teams, providers and limits.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/files/overlay"
	"conclave/worker"
	"conclave/worker/cluster"
	"conclave/workflows"
)

func main() {
	overlay.RunHolder()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	err := newCommand(os.Stderr).ExecuteContext(ctx)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "conclave-worker: "+cluster.Explain(err))
	}
	os.Exit(exitCode(ctx, err))
}

// flags are the flags of `conclave worker` that apply to a cluster.
type flags struct {
	cluster.WorkerFlags
	address, namespace, queue string
	bucket, prefix            string
}

// Exit codes.
const (
	exitStopped = 0 // stopped by a signal
	exitUsage   = 1 // nothing was started: usage, configuration, or a cluster out of reach
	exitEnded   = 2 // worked, but cannot continue
)

// exitCode returns the exit code for an error. An interrupted start counts as an orderly end.
func exitCode(ctx context.Context, err error) int {
	switch {
	case err == nil, ctx.Err() != nil:
		return exitStopped
	case errors.Is(err, worker.ErrEnded):
		return exitEnded
	}
	return exitUsage
}

func newCommand(log io.Writer) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "conclave-worker --bucket BUCKET [flags]",
		Short: "Run sessions and their steps for a cluster",
		Long: `Run sessions and their steps for a cluster until interrupted.

Temporal is found by --address and --namespace, TEMPORAL_* and temporal.toml. The
workspaces and answers are kept in --bucket, with credentials and endpoint from
AWS_*; it must honour conditional writes, which is checked before any work starts.
Keys of models come from the environment variables that providers name.

The worker ends on SIGTERM: it takes no more work, hands running steps over to other
workers within 5 seconds, and exits with 0, at the latest after 20 seconds. With
metrics_address in --worker-config it serves /metrics for Prometheus, /healthz and /readyz.

With --deployment the worker joins a Temporal worker deployment, as the version with the
build ID of its binary, which its log names. A version gets work once it is the current one:

  temporal worker deployment set-current-version --deployment-name NAME --build-id ID`,
		Example: `  conclave-worker --address temporal.example.com:7233 --bucket sessions --worker-config worker.yaml
  TEMPORAL_PROFILE=prod AWS_ENDPOINT_URL_S3=http://minio:9000 conclave-worker --bucket sessions --worker-config worker.yaml`,
		Args:              cobra.NoArgs,
		Version:           cluster.Version(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := f.Log.New(log)
			if err != nil {
				return err
			}
			return runWorker(cmd.Context(), f, logger)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.address, "address", "", "Temporal `HOST:PORT` (default from TEMPORAL_ADDRESS or temporal.toml)")
	set.StringVar(&f.namespace, "namespace", "", "Temporal `NAMESPACE` (default from TEMPORAL_NAMESPACE or temporal.toml, else default)")
	set.StringVar(&f.queue, "task-queue", workflows.TaskQueue, "task queue `NAME`")
	set.StringVar(&f.bucket, "bucket", "", "S3 `BUCKET` of the sessions")
	set.StringVar(&f.prefix, "prefix", "", "key `PREFIX` in the bucket")
	f.Flags(set)
	return cmd
}

// runWorker checks the flags and the default team before it connects, so that their faults are
// reported without a cluster.
func runWorker(ctx context.Context, f flags, log *slog.Logger) error {
	cfg, err := f.workerConfig()
	if err != nil {
		return err
	}
	options, found, err := cluster.Options(f.address, f.namespace)
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("no address of a Temporal service; give --address, TEMPORAL_ADDRESS or a profile in temporal.toml")
	case f.bucket == "":
		return errors.New("sessions are kept in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	}
	cfg.Tools.Keep(cfg.Scratch, cfg.Cache)
	if err := cfg.Tools.Check(ctx, cfg.Teams.Named[activities.DefaultTeam]); err != nil && !activities.Lacks(err, activities.MissingKey) { // sessions wait for a key
		return fmt.Errorf("use the default team: %w", err)
	}
	store, err := cluster.OpenBucket(ctx, f.bucket, f.prefix, cfg.Metrics.Observer())
	if err != nil {
		return err
	}
	cfg.Store, cfg.Tools.Log, cfg.Log = store, log, log
	cfg.Roster, cfg.Server, cfg.Namespace = cmp.Or(f.StateDir, cluster.DefaultRoster()), cluster.Name(options), options.Namespace
	options.MetricsHandler = cfg.Metrics.Handler()
	if cfg.Client, err = cluster.Dial(ctx, options, log); err != nil {
		return fmt.Errorf("%w; check --address and TEMPORAL_*", err)
	}
	defer cfg.Client.Close()
	if err := cluster.Probe(ctx, store); err != nil {
		return err
	}
	for _, missing := range cfg.Missing(ctx) {
		log.Warn(missing)
	}
	return worker.Run(ctx, cfg, func() {
		log.Info("working", "version", cluster.Version(), "address", options.HostPort, "namespace", options.Namespace, "task_queue", f.queue, "store", store.URL(""),
			"deployment", f.Deployment, "build", cluster.BuildID(), "metrics_address", cfg.MetricsAddress)
	})
}

func (f flags) workerConfig() (worker.Config, error) {
	s := worker.DefaultSettings()
	var err error
	if err := f.Check(); err != nil {
		return worker.Config{}, err
	}
	if f.Settings != "" {
		if s, err = worker.LoadSettings(f.Settings); err != nil {
			return worker.Config{}, err
		}
	}
	team, given := s.Teams[activities.DefaultTeam]
	if !given {
		team = config.Default()
	}
	if f.Offline {
		team = team.Offline()
	}
	cfg := worker.Config{
		TaskQueue: f.queue, MaxConcurrentSteps: f.MaxSteps, Cache: worker.DefaultCache(),
		Deployment: f.Deployment,
		Teams:      activities.Teams{Named: map[string]config.Team{activities.DefaultTeam: team}},
	}
	cfg.Configure(s)
	if cfg.MetricsAddress != "" {
		cfg.Metrics = cluster.NewMetrics(cluster.Version())
	}
	return cfg, cfg.CheckPrices()
}
