package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/cmd/conclave/local/server"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/text"
	"conclave/worker"
	"conclave/worker/cluster"
	sessionflow "conclave/workflows/session"
)

// StackCommands returns `conclave dev`, `conclave worker` and the hidden command of the embedded
// stack's process. The pages of dev steer runs of the kinds.
func StackCommands(c *cli.CLI, kinds []*runs.Kind) []*cobra.Command {
	return []*cobra.Command{devCommand(c, kinds), workerCommand(c), childCommand(c)}
}

func childCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use: local.ChildCommand, Hidden: true, Args: cobra.NoArgs, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return server.RunChild(cmd.Context(), c.Stdin, c.Stderr)
		},
	}
}

func devCommand(c *cli.CLI, kinds []*runs.Kind) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run embedded Temporal, web UI, S3 store and worker, until interrupted",
		Long: `Run everything that a session needs on this machine until interrupted: a Temporal
server, its Web UI, an S3 store, a worker, and the server of ` + "`conclave serve`" + ` with
OpenAI's API, MCP and the pages. It joins the stack of the data directory if one
runs. Ctrl-C is its normal end: unfinished sessions continue the next time.

The servers accept connections of your own user, and of root, only. They have no
passwords: with ` + local.OtherUsersFlag + ` every user of this machine can read all
sessions, and start new ones with your keys.

The ports of Temporal, its Web UI and the S3 store stay the same from one start to
the next; the flags choose others.
--worker-config defines providers, teams, MCP servers and limits, as for
` + "`conclave worker`" + `.`,
		Example: `  conclave dev
  conclave dev --offline
  conclave dev ` + local.OtherUsersFlag + `
  conclave dev --port 7233 --ui-port 8233 --s3-port 9000
  conclave dev --worker-config worker.yaml
  conclave dev --config team.yaml --data-dir /srv/conclave`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd.Context(), c, kinds, f) },
	}
	cmd.Flags().BoolVar(&f.offline, "offline", false, "the default team uses the built-in deterministic model")
	cmd.Flags().IntVar(&f.ports.Temporal, "port", 0, "`PORT` of Temporal (default that of the last start, else a free one)")
	cmd.Flags().IntVar(&f.ports.UI, "ui-port", 0, "`PORT` of the Web UI")
	cmd.Flags().IntVar(&f.ports.S3, "s3-port", 0, "`PORT` of the S3 store")
	cmd.Flags().StringVar(&f.settings, "worker-config", "", "the operator's configuration `FILE`: providers, teams, limits")
	cmd.Flags().BoolVar(&f.otherUsers, strings.TrimPrefix(local.OtherUsersFlag, "--"), false, "let all users of this machine use the servers, without a password")
	return cmd
}

// devFlags are the flags of dev besides the common ones.
type devFlags struct {
	offline, otherUsers bool
	ports               local.Ports
	settings            string // path of the worker's configuration
}

// runDev prepares the team and the worker before it joins the stack, so that a fault in their
// configuration starts nothing.
func runDev(ctx context.Context, c *cli.CLI, kinds []*runs.Kind, f devFlags) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	if t.Cluster {
		return fmt.Errorf("dev runs a Temporal server of its own, but there is an address already (%s); leave out --address and TEMPORAL_ADDRESS, or use `conclave worker`", t.Options.HostPort)
	}
	if err := checkPorts(f.ports); err != nil {
		return err
	}
	t.OtherUsers, t.Ports = f.otherUsers, f.ports
	prepared, err := prepareDev(ctx, c, t, f)
	if err != nil {
		return err
	}
	t.Metrics = newMetrics(prepared.Settings)
	conn, err := joinStack(ctx, c, t, f)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer conn.Close()
	cfg, err := teams.DefaultWorker(conn, prepared.standard)
	if err != nil {
		return err
	}
	cfg.Tools = prepared.Tools
	if f.settings != "" {
		cfg.Configure(prepared.Settings)
		for _, missing := range cfg.Missing(ctx) {
			c.Infof("warning: %s", missing)
		}
	}
	stop, err := worker.Start(cfg)
	if err != nil {
		return err
	}
	defer stop()
	api, err := serveDevTeams(ctx, conn, kinds, prepared)
	if err != nil {
		return err
	}
	defer api.Stop()
	withdraw, err := local.Pages{Address: api.Address, PID: os.Getpid()}.Announce(conn.Stack.DataDir)
	if err != nil {
		c.Infof("warning: other commands serve pages of their own: %v", err)
	}
	defer withdraw()
	if err := announceStack(conn, api.Address, prepared.standard, prepared.source, f.offline); err != nil {
		return err
	}
	if prepared.keys != nil {
		c.Infof("warning: sessions of the default team will wait: %v", prepared.keys)
	}
	return awaitEnd(ctx, conn)
}

// joinStack connects to the stack. If a stack with other ports or users is running, it waits
// briefly for its end, because a stack outlives its last command for a moment.
func joinStack(ctx context.Context, c *cli.CLI, t cli.Target, f devFlags) (*cli.Connection, error) {
	const patience, interval = 6 * time.Second, 2 * time.Second
	logger := cluster.Warnings(plainWriter{c.Stderr})
	for deadline := time.Now().Add(patience); ; {
		conn, err := c.Connect(ctx, t, logger)
		if err != nil {
			return nil, err
		}
		err = checkJoined(conn, f)
		if err == nil {
			return conn, nil
		}
		conn.Close()
		if time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(interval):
		}
	}
}

// preparedDev is the worker that dev runs.
type preparedDev struct {
	*teams.Worker
	standard config.Team
	source   string // source of the standard team
	keys     error  // names the missing keys of a standard team that this worker may lack
}

// prepareDev checks the configurations of dev before it starts anything. Without a worker
// configuration missing keys and providers are no errors, because sessions may have other teams.
func prepareDev(ctx context.Context, c *cli.CLI, t cli.Target, f devFlags) (p preparedDev, err error) {
	if p.Worker, err = readWorker(c, t, cluster.WorkerFlags{Settings: f.settings}); err != nil {
		return p, err
	}
	if p.standard, p.source, err = chooseTeam(c, t, p.Worker, f.offline); err != nil {
		return p, err
	}
	var logger *slog.Logger
	switch {
	case f.settings != "":
		err = checkProviders(p.Worker, p.standard, p.source)
		logger = slog.New(slog.NewTextHandler(plainWriter{c.Stderr}, nil))
	case !f.offline:
		p.keys = teams.MissingKeys(p.standard)
	}
	if err != nil {
		return p, err
	}
	return p, checkTools(ctx, t, p.Worker, p.standard, logger)
}

func checkPorts(p local.Ports) error {
	const highest = 65535
	used := map[int]string{}
	for _, f := range []struct {
		name string
		port int
	}{{"--port", p.Temporal}, {"--ui-port", p.UI}, {"--s3-port", p.S3}} {
		if f.port < 0 || f.port > highest {
			return fmt.Errorf("%s is %d; give a port from 1 to %d", f.name, f.port, highest)
		}
		if other := used[f.port]; f.port != 0 && other != "" {
			return fmt.Errorf("%s and %s are both %d; give two ports", other, f.name, f.port)
		}
		used[f.port] = f.name
	}
	return nil
}

// checkJoined refuses a stack that was already running with other users or ports than requested.
func checkJoined(conn *cli.Connection, f devFlags) error {
	const remedy = "end the commands that use it, then start it with %s"
	if f.otherUsers && !conn.Stack.OtherUsers {
		return fmt.Errorf("let other users in: the stack on %s runs already, for your user only; "+remedy, conn.Target.DataDir, local.OtherUsersFlag)
	}
	for _, p := range []struct {
		flag         string
		wanted, used int
	}{{"--port", f.ports.Temporal, conn.Stack.Ports.Temporal}, {"--ui-port", f.ports.UI, conn.Stack.Ports.UI}, {"--s3-port", f.ports.S3, conn.Stack.Ports.S3}} {
		if p.wanted != 0 && p.wanted != p.used {
			return fmt.Errorf("use %s %d: the stack on %s runs already, with %d; "+remedy, p.flag, p.wanted, conn.Target.DataDir, p.used, p.flag)
		}
	}
	return nil
}

func awaitEnd(ctx context.Context, conn *cli.Connection) error {
	err := conn.AwaitEnd(ctx, "dev", nil)
	if err == nil && !conn.Scripted() {
		conn.Infof("stopping; unfinished sessions continue the next time")
	}
	return err
}

// unlessInterrupted drops the error of an interrupted start, which is the normal end of dev and
// worker.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// plainWriter removes control characters from log lines.
type plainWriter struct{ out io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, text.Terminal(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// served is the JSON output of dev. The keys of the store are only in stack.json.
type served struct {
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	TaskQueue       string `json:"task_queue"`
	UIAddress       string `json:"ui_address"`
	S3Endpoint      string `json:"s3_endpoint"`
	APIAddress      string `json:"api_address"` // address at which the teams are models
	Bucket          string `json:"bucket"`
	DataDir         string `json:"data_dir"`
	OtherUsers      bool   `json:"other_users"` // may use the servers
	Offline         bool   `json:"offline"`
}

func announceStack(conn *cli.Connection, api string, standard config.Team, source string, offline bool) error {
	s := conn.Stack
	if conn.Scripted() {
		return conn.PrintJSON(served{
			TemporalAddress: s.TemporalAddress, Namespace: s.Namespace, TaskQueue: conn.Queue, UIAddress: s.UIAddress,
			S3Endpoint: s.S3Endpoint, APIAddress: api, Bucket: s.Bucket, DataDir: s.DataDir, OtherUsers: s.OtherUsers, Offline: offline,
		})
	}
	_, err := fmt.Fprintf(conn.Stdout, `Pages       %s
Temporal    %s, namespace %s, task queue %s
Web UI      %s/namespaces/%s/workflows
S3          %s, bucket %s (keys in %s)
OpenAI API  %s/v1, model conclave
Data        %s
Users       %s
Team        default: %s from %s

Start a session:
  conclave run%s "…"
  temporal workflow start --address %s --task-queue %s --type %s --workflow-id s1 --input '{"query":"…"}'

Ctrl-C stops.
`,
		api, s.TemporalAddress, s.Namespace, conn.Queue, s.UIAddress, s.Namespace, s.S3Endpoint, s.Bucket, filepath.Join(s.DataDir, "stack.json"),
		api, s.DataDir, describeAdmitted(s), cli.Line(teams.Describe(standard)), source,
		dataDirFlag(conn.CLI), s.TemporalAddress, text.ShellQuote(conn.Queue), sessionflow.Type)
	if conn.Metrics != nil {
		conn.Infof("metrics and health are served at metrics_address of --worker-config")
	}
	if offline {
		conn.Infof("%s", "offline: the default team uses the built-in deterministic model, no language model")
	}
	return err
}

// describeAdmitted describes who can use a stack and how to change that.
func describeAdmitted(s local.Stack) string {
	if s.OtherUsers {
		return "everybody on this machine, without a password (" + local.OtherUsersFlag + ")"
	}
	return "only you and root; " + local.OtherUsersFlag + " lets everybody on this machine in"
}

// dataDirFlag returns the flag with which other commands find this data directory.
func dataDirFlag(c *cli.CLI) string {
	if c.DataDir == "" {
		return ""
	}
	return " --data-dir " + text.ShellQuote(c.DataDir)
}
