package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/devserver"
	"conclave/cmd/conclave/progress"
	"conclave/engine/config"
	"conclave/worker"
	sessionflow "conclave/workflows/session"
)

// stackCheck is how often dev looks whether its stack still serves.
const stackCheck = 2 * time.Second

func (c *cli) devCommand() *cobra.Command {
	offline := false
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Embedded Temporal, web UI, S3 store and worker, until interrupted",
		Long: `Run everything a session needs on this machine until interrupted: a Temporal
server, its Web UI, an S3 store and a worker. It joins the stack that runs on the
data directory already, if there is one. Ctrl-C is its normal end: whatever is
unfinished goes on the next time.`,
		Example: `  conclave dev
  conclave dev --offline
  conclave dev --config team.yaml --data-dir /srv/conclave`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.dev(cmd.Context(), offline) },
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "the default team uses the built-in deterministic model")
	return cmd
}

func (c *cli) dev(ctx context.Context, offline bool) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	if t.cluster {
		return fmt.Errorf("dev runs a Temporal server of its own, but there is an address already (%s); leave out --address and TEMPORAL_ADDRESS, or use `conclave worker`", t.options.HostPort)
	}
	team, source, keys, err := c.defaultTeam(offline)
	if err != nil {
		return err
	}
	if err := c.equip(ctx, team, ofAWorker); err != nil {
		return err
	}
	p, err := c.connect(ctx, t, c.warnings())
	if err != nil {
		return orderly(ctx, err)
	}
	defer p.close()
	if err := p.setDefault(team); err != nil {
		return err
	}
	stop, err := c.work(p, team, runsSteps)
	if err != nil {
		return err
	}
	defer stop()
	if err := c.announce(p, team, source, offline); err != nil {
		return err
	}
	if keys != nil {
		c.say("warning: sessions of the default team will wait: %v", keys)
	}
	return c.serve(ctx, p)
}

// defaultTeam is the team that sessions get which name none. Missing keys are
// no error here: sessions may bring other teams. A limit in dollars that cannot be
// kept is one.
func (c *cli) defaultTeam(offline bool) (team config.Team, source string, keys, err error) {
	team, source, err = c.loadTeam(config.Local)
	switch {
	case err != nil:
		return team, source, nil, err
	case offline:
		return team.Offline(), source, nil, nil
	}
	team = resolveModels(team)
	return team, source, missingKeys(team), worker.Models{}.CheckPrices(team)
}

// serve waits for the end that is asked for.
func (c *cli) serve(ctx context.Context, p *place) error {
	tick := time.NewTicker(stackCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if c.people() {
				c.say("stopping; unfinished sessions go on the next time")
			}
			return nil
		case <-tick.C:
			if _, serves, err := devserver.Find(p.dataDir); err == nil && !serves {
				return end(exitNoAnswer, "the embedded stack has ended; its log is %s, and `conclave dev` starts it again", p.stack.LogFile)
			}
		}
	}
}

// orderly makes an interrupted start the orderly end it is for dev and worker.
func orderly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// warnings logs what a person who watches a server should know.
func (c *cli) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(plainWriter{c.stderr}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// plainWriter takes from log lines what a terminal would obey.
type plainWriter struct{ out io.Writer }

func (w plainWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, progress.Plain(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// served is what dev prints with --json. It holds no secret: the store's keys
// are in stack.json, which only its owner may read.
type served struct {
	TemporalAddress string `json:"temporal_address"`
	Namespace       string `json:"namespace"`
	TaskQueue       string `json:"task_queue"`
	UIAddress       string `json:"ui_address"`
	S3Endpoint      string `json:"s3_endpoint"`
	Bucket          string `json:"bucket"`
	DataDir         string `json:"data_dir"`
	Offline         bool   `json:"offline"`
}

func (c *cli) announce(p *place, team config.Team, source string, offline bool) error {
	s := p.stack
	if !c.people() {
		return c.printJSON(served{
			TemporalAddress: s.TemporalAddress, Namespace: s.Namespace, TaskQueue: p.queue, UIAddress: s.UIAddress,
			S3Endpoint: s.S3Endpoint, Bucket: s.Bucket, DataDir: s.DataDir, Offline: offline,
		})
	}
	_, err := fmt.Fprintf(c.stdout, `Temporal    %s, namespace %s, task queue %s
Web UI      %s/namespaces/%s/workflows
S3          %s, bucket %s (keys in %s)
Data        %s
Team        default: %s from %s

Start a session:
  conclave run%s "…"
  temporal workflow start --address %s --task-queue %s --type %s --workflow-id s1 --input '{"query":"…"}'

Ctrl-C stops.
`,
		s.TemporalAddress, s.Namespace, p.queue, s.UIAddress, s.Namespace, s.S3Endpoint, s.Bucket, filepath.Join(s.DataDir, "stack.json"),
		s.DataDir, progress.Line(describeTeam(team)), source,
		c.sameDir(), s.TemporalAddress, shellQuote(p.queue), sessionflow.Type)
	if offline {
		c.say("%s", "offline: the default team uses the built-in deterministic model, no language model")
	}
	return err
}

// sameDir are the flags with which another command finds this data directory.
func (c *cli) sameDir() string {
	if c.dataDir == "" {
		return ""
	}
	return " --data-dir " + shellQuote(c.dataDir)
}
