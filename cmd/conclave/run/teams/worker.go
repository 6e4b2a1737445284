package teams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/engine/config"
	"conclave/worker"
)

// drainTime is how long the worker of a command waits at its end for the calls of other runs.
const drainTime = 30 * time.Second

// RunWorker starts a worker in this process that runs steps, unless the target is a cluster.
// Its default team is that of --worker-config or of the data directory. If w is nil, RunWorker
// opens one. If own is the ID of the command's workflow, stop waits for the calls of other runs,
// which the worker has taken, too.
func RunWorker(conn *cli.Connection, w *Worker, own string) (stop func(), err error) {
	if conn.Cluster {
		return func() {}, nil
	}
	if w == nil {
		if w, err = OpenWorker(conn.CLI, conn.Target); err != nil {
			return nil, err
		}
		w.findTrustedKeys(conn.CLI)
	}
	standard, named := w.Settings.Teams[activities.DefaultTeam]
	if !named {
		standard = defaultForOthers(conn.CLI, conn.Target)
	}
	cfg, err := workerConfig(conn, standard)
	if err != nil {
		return nil, err
	}
	cfg.Tools, cfg.Models.Keys = w.Tools, w.Models.Keys
	cfg.Configure(w.Settings)
	if own != "" {
		cfg.Own, cfg.Grace = own, drainTime
		cfg.Draining = func(calls int) {
			conn.Infof("waiting up to %d s for %s of other sessions; Ctrl-C hands them over at once, and they are made again", int(drainTime.Seconds()), cli.Plural(calls, "call"))
		}
	}
	return worker.Start(cfg)
}

// RunObserver starts a worker in this process that runs no steps, unless the target is a cluster.
func RunObserver(conn *cli.Connection) (stop func(), err error) {
	if conn.Cluster {
		return func() {}, nil
	}
	cfg := baseConfig(conn)
	cfg.NoSteps = true
	return worker.Start(cfg)
}

// DefaultWorker returns the configuration of a worker whose default team becomes that of the
// local stack.
func DefaultWorker(conn *cli.Connection, team config.Team) (worker.Config, error) {
	if err := setDefault(conn.Target, team); err != nil {
		return worker.Config{}, err
	}
	return workerConfig(conn, team)
}

// workerConfig returns the configuration of a worker that runs steps. On a local stack it
// registers the team, so that every worker of the data directory can continue its sessions.
func workerConfig(conn *cli.Connection, team config.Team) (cfg worker.Config, err error) {
	cfg = baseConfig(conn)
	cfg.Teams.Named = map[string]config.Team{}
	if !conn.Cluster {
		cfg.Teams.Dir = registryDir(conn.Target)
	}
	if len(team.Agents) > 0 {
		cfg.Teams.Named[activities.DefaultTeam] = team
		if !conn.Cluster {
			_, err = cfg.Teams.Register(team)
		}
	}
	return cfg, err
}

// localHeartbeatTimeout is longer than a cluster's, because the stack itself detects dead
// workers, and a single busy machine runs everything.
const localHeartbeatTimeout = time.Minute

func baseConfig(conn *cli.Connection) worker.Config {
	cfg := worker.Config{Client: conn.Client, Store: conn.Store, TaskQueue: conn.Queue, Cache: worker.DefaultCache(), Metrics: conn.Metrics}
	if !conn.Cluster {
		cfg.Scratch = filepath.Join(conn.Target.DataDir, "scratch")
		cfg.Cache = filepath.Join(conn.Target.DataDir, "cache")
		cfg.Roster, cfg.HeartbeatTimeout = local.Workers(conn.Target.DataDir), localHeartbeatTimeout
		cfg.Pages = func() string {
			pages, _ := local.FindPages(conn.Target.DataDir)
			return pages.Address
		}
	}
	return cfg
}

// Worker has the models and tools of --worker-config for the worker that a command runs
// in this process.
type Worker struct {
	Tools    *worker.Tools // nil for the workers of a cluster, which have their own
	Models   worker.Models
	Settings worker.Settings

	file      string          // path of the settings; empty without --worker-config
	fileless  bool            // the team of the command comes from no file
	untrusted *UntrustedError // the KeyFile that the user does not trust; nil for none
}

// WorkerConfigFlag adds --worker-config to a command that runs steps.
func WorkerConfigFlag(c *cli.CLI, set *pflag.FlagSet) {
	set.StringVar(&c.WorkerConfig, "worker-config", "", "the configuration `FILE` of the worker in this process: providers, MCP servers, teams, limits")
	_ = cobra.MarkFlagFilename(set, "worker-config", "yaml", "yml", "json") // fails for unknown flags only
}

// Open returns the target of a command with the worker that it may run.
func Open(c *cli.CLI) (cli.Target, *Worker, error) {
	t, err := c.Target()
	if err != nil {
		return t, nil, err
	}
	w, err := OpenWorker(c, t)
	return t, w, err
}

// OpenWorker reads the file of --worker-config.
func OpenWorker(c *cli.CLI, t cli.Target) (*Worker, error) {
	switch {
	case t.Cluster && c.WorkerConfig != "":
		return nil, errors.New("--worker-config is for the worker in this process, but a cluster has workers of its own; leave it out, or give it to `conclave worker`")
	case t.Cluster:
		return &Worker{Settings: worker.DefaultSettings()}, nil
	}
	w, err := ReadWorker(c.WorkerConfig, config.Local)
	if err == nil {
		w.fileless = Choose(c).File == ""
	}
	return w, err
}

// ReadWorker reads the configuration of a worker in a file; without a name it is the default one.
// For a local worker it resolves the addresses of models in its teams.
func ReadWorker(file string, reach config.Reach) (*Worker, error) {
	w := &Worker{Settings: worker.DefaultSettings(), file: file}
	if file != "" {
		var err error
		if w.Settings, err = worker.LoadSettings(file); err != nil {
			return nil, err
		}
	}
	if reach == config.Local {
		for name, team := range w.Settings.Teams {
			w.Settings.Teams[name] = w.Resolve(team)
		}
	}
	var cfg worker.Config
	cfg.Configure(w.Settings)
	w.Tools, w.Models = cfg.Tools, cfg.Models
	return w, nil
}

// Default returns the default team of --worker-config, or else that of Load. It refuses --config and
// --model beside the former.
func (w *Worker) Default(c *cli.CLI, reach config.Reach, offline bool) (team config.Team, source string, err error) {
	team, own := w.Settings.Teams[activities.DefaultTeam]
	switch {
	case !own:
		return Load(c, reach, offline)
	case c.NamesTeam():
		return team, w.file, fmt.Errorf("%s, but %s has a default team, too; leave out %[1]s or teams.default", map[bool]string{true: "--config", false: "--model"}[c.Config != ""], w.file)
	case offline:
		team = team.Offline()
	}
	return team, w.file, nil
}

// Team returns a team of --worker-config.
func (w *Worker) Team(name string) (team config.Team, source string, found bool) {
	team, found = w.Settings.Teams[name]
	return team, name + " of " + w.file, found
}

// Names returns the names of the teams in --worker-config, sorted.
func (w *Worker) Names() []string { return slices.Sorted(maps.Keys(w.Settings.Teams)) }

// Known returns the quoted names of the teams that a session can have, the default first.
func (w *Worker) Known() string {
	names := []string{strconv.Quote(activities.DefaultTeam)}
	for _, name := range w.Names() {
		if name != activities.DefaultTeam {
			names = append(names, strconv.Quote(name))
		}
	}
	return strings.Join(names, ", ")
}

// Startable returns an error if every session of a team would fail.
func (w *Worker) Startable(team config.Team) error {
	if err := w.missingKeys(team); err != nil {
		return err
	}
	for _, a := range team.Agents {
		if a.Backend.Type == config.Recorded {
			if _, err := w.Models.Model(a); err != nil {
				return err
			}
		}
	}
	return w.Models.CheckPrices(team)
}

// NoteShell says in one line that the agents of teams with config.AutoShell cannot run commands here. On a
// cluster its workers decide.
func (w *Worker) NoteShell(ctx context.Context, c *cli.CLI, teams ...config.Team) {
	automatic := func(t config.Team) bool {
		return slices.ContainsFunc(t.Agents, func(a config.Agent) bool { return a.Tools.Shell == config.AutoShell })
	}
	if w.Tools != nil && slices.ContainsFunc(teams, automatic) {
		if err := w.Tools.Confined(ctx); err != nil {
			c.Infof("agents cannot run commands, so nothing will be run: %v", err)
		}
	}
}

// Serves refuses teams that need providers or tools that this process lacks. On a cluster
// it accepts all teams, because the workers there may have them.
func (w *Worker) Serves(ctx context.Context, teams ...config.Team) error {
	if w.Tools == nil {
		return nil
	}
	for _, team := range teams {
		if err := w.Models.CheckProviders(team); err != nil {
			return err
		}
		if err := w.Tools.Check(ctx, team); err != nil {
			return err
		}
	}
	return nil
}
