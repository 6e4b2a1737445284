package stack

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/devserver"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/localstack"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/cluster"
	"conclave/worker/settings"
)

// checkInterval is the interval at which dev checks that its stack still serves.
const checkInterval = 2 * time.Second

// Commands returns `conclave dev`, `conclave worker` and the hidden command of the embedded
// stack's process. The pages of dev steer runs of the kinds.
func Commands(c *hall.CLI, kinds []*runs.Kind) []*cobra.Command {
	return []*cobra.Command{devCommand(c, kinds), workerCommand(c), childCommand(c)}
}

func childCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use: localstack.ChildCommand, Hidden: true, Args: cobra.NoArgs, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return devserver.RunChild(cmd.Context(), c.Stdin, c.Stderr)
		},
	}
}

func devCommand(c *hall.CLI, kinds []*runs.Kind) *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Embedded Temporal, web UI, S3 store and worker, until interrupted",
		Long: `Run everything that a session needs on this machine until interrupted: a Temporal
server, its Web UI, an S3 store, a worker, and the server of ` + "`conclave serve`" + ` with
OpenAI's API, MCP and the pages. It joins the stack of the data directory if one
runs. Ctrl-C is its normal end: unfinished sessions continue the next time.

The servers accept connections of your own user, and of root, only. They have no
passwords: with ` + localstack.OtherUsersFlag + ` every user of this machine can read all
sessions, and start new ones with your keys.

The ports of Temporal, its Web UI and the S3 store stay the same from one start to
the next; the flags choose others.
--worker-config defines providers, teams, MCP servers and limits, as for
` + "`conclave worker`" + `.`,
		Example: `  conclave dev
  conclave dev --offline
  conclave dev ` + localstack.OtherUsersFlag + `
  conclave dev --port 7233 --ui-port 8233 --s3-port 9000
  conclave dev --worker-config worker.yaml
  conclave dev --config team.yaml --data-dir /srv/conclave`,
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return dev(cmd.Context(), c, kinds, f) },
	}
	cmd.Flags().BoolVar(&f.offline, "offline", false, "the default team uses the built-in deterministic model")
	cmd.Flags().IntVar(&f.ports.Temporal, "port", 0, "`PORT` of Temporal (default that of the last start, else a free one)")
	cmd.Flags().IntVar(&f.ports.UI, "ui-port", 0, "`PORT` of the Web UI")
	cmd.Flags().IntVar(&f.ports.S3, "s3-port", 0, "`PORT` of the S3 store")
	cmd.Flags().StringVar(&f.settings, "worker-config", "", "the operator's configuration `FILE`: providers, teams, limits")
	cmd.Flags().BoolVar(&f.otherUsers, strings.TrimPrefix(localstack.OtherUsersFlag, "--"), false, "let all users of this machine use the servers, without a password")
	return cmd
}

// devFlags are the flags of dev besides the common ones.
type devFlags struct {
	offline, otherUsers bool
	ports               localstack.Ports
	settings            string // path of the worker's configuration
}

func dev(ctx context.Context, c *hall.CLI, kinds []*runs.Kind, f devFlags) error {
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
	t.Metrics = newMetrics(prepared.settings)
	conn, err := join(ctx, c, t, f)
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer conn.Close()
	cfg, err := team.DefaultWorker(conn, prepared.standard)
	if err != nil {
		return err
	}
	cfg.Tools = prepared.tools
	if f.settings != "" {
		cfg.Configure(prepared.settings)
		for _, missing := range cfg.Missing(ctx) {
			c.Infof("warning: %s", missing)
		}
	}
	stop, err := worker.Start(cfg)
	if err != nil {
		return err
	}
	defer stop()
	api, err := serveTeams(ctx, conn, kinds, prepared)
	if err != nil {
		return err
	}
	defer api.Stop()
	if err := announce(conn, api.Address, prepared.standard, prepared.source, f.offline); err != nil {
		return err
	}
	if prepared.keys != nil {
		c.Infof("warning: sessions of the default team will wait: %v", prepared.keys)
	}
	return await(ctx, conn)
}

// join connects to the stack. If a stack with other ports or users is running, join waits
// briefly for its end, because a stack outlives its last command for a moment.
func join(ctx context.Context, c *hall.CLI, t hall.Target, f devFlags) (*hall.Connection, error) {
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
	standard config.Team
	source   string // source of the standard team
	keys     error  // names the missing keys
	tools    *worker.Tools
	settings settings.Settings // only with a worker configuration
}

// prepareDev checks the configurations of dev before it starts anything.
func prepareDev(ctx context.Context, c *hall.CLI, t hall.Target, f devFlags) (p preparedDev, err error) {
	if f.settings == "" {
		if p.standard, p.source, p.keys, err = defaultTeam(c, f.offline); err != nil {
			return p, err
		}
		p.tools = worker.NewTools(settings.Default())
		err = p.tools.Check(ctx, p.standard)
		if activities.Lacks(err, activities.MissingKey) { // sessions wait for a key
			err = nil
		}
		return p, err
	}
	flags := cluster.WorkerFlags{Settings: f.settings, Offline: f.offline}
	if p.settings, err = workerSettings(c, t, flags); err != nil {
		return p, err
	}
	if p.standard, p.source, err = workerTeam(c, t, flags, p.settings); err != nil {
		return p, err
	}
	p.tools, err = workerTools(ctx, t, p.standard, p.settings, slog.New(slog.NewTextHandler(plainWriter{c.Stderr}, nil)))
	return p, err
}

// checkPorts refuses numbers that are not valid ports.
func checkPorts(p localstack.Ports) error {
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
func checkJoined(conn *hall.Connection, f devFlags) error {
	const remedy = "end the commands that use it, then start it with %s"
	if f.otherUsers && !conn.Stack.OtherUsers {
		return fmt.Errorf("let other users in: the stack on %s runs already, for your user only; "+remedy, conn.Target.DataDir, localstack.OtherUsersFlag)
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

// defaultTeam returns the team for sessions that do not name one. Missing keys are only a
// warning, because sessions may have other teams. A dollar limit without known prices is an
// error.
func defaultTeam(c *hall.CLI, offline bool) (t config.Team, source string, keys, err error) {
	t, source, err = team.Load(c, config.Local, offline)
	if err != nil || offline {
		return t, source, nil, err
	}
	t = team.Resolve(t)
	return t, source, team.MissingKeys(t), worker.Models{}.CheckPrices(t)
}

// await waits until the command is interrupted or the embedded stack ends.
func await(ctx context.Context, conn *hall.Connection) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if !conn.Scripted() {
				conn.Infof("stopping; unfinished sessions continue the next time")
			}
			return nil
		case <-tick.C:
			if conn.StackEnded() {
				return hall.Exitf(hall.ExitNoAnswer, "the embedded stack has ended; its log is %s, and `conclave dev` starts it again", conn.Stack.LogFile)
			}
		}
	}
}

// unlessInterrupted drops the error of an interrupted start, which is the normal end of dev and
// worker.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
