package team

import (
	"context"
	"path/filepath"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/settings"
)

// RunWorker starts a worker in this process that runs steps, unless the target is a
// cluster, which has its own. Its default team is that of the data directory. Tools
// may be nil.
func RunWorker(conn *hall.Connection, tools *worker.Tools) (stop func(), err error) {
	if conn.Cluster {
		return func() {}, nil
	}
	cfg, err := workerConfig(conn, forOthers(conn.CLI, conn.Target))
	if err != nil {
		return nil, err
	}
	cfg.Tools = tools
	return worker.Start(cfg)
}

// RunObserver starts a worker in this process that answers queries and updates but
// runs no steps, unless the target is a cluster.
func RunObserver(conn *hall.Connection) (stop func(), err error) {
	if conn.Cluster {
		return func() {}, nil
	}
	cfg := baseConfig(conn)
	cfg.NoSteps = true
	return worker.Start(cfg)
}

// DefaultWorker is the configuration of a worker with this default team, which on a local
// stack becomes the default of the data directory.
func DefaultWorker(conn *hall.Connection, team config.Team) (worker.Config, error) {
	if err := setDefault(conn.Target, team); err != nil {
		return worker.Config{}, err
	}
	return workerConfig(conn, team)
}

// workerConfig is the configuration of a worker that runs steps. A team of the zero value
// is no default team.
func workerConfig(conn *hall.Connection, team config.Team) (cfg worker.Config, err error) {
	cfg = baseConfig(conn)
	cfg.Teams, err = known(conn.Target, team)
	return cfg, err
}

func baseConfig(conn *hall.Connection) worker.Config {
	cfg := worker.Config{Client: conn.Client, Store: conn.Store, TaskQueue: conn.Queue, Cache: worker.DefaultCache()}
	if !conn.Cluster {
		cfg.Scratch = filepath.Join(conn.Target.DataDir, "scratch")
		cfg.Cache = filepath.Join(conn.Target.DataDir, "cache")
	}
	return cfg
}

// known are the teams that a worker of this process can run. The default team of a
// local stack is registered, so that every worker of the data directory can go on
// with its sessions.
func known(t hall.Target, team config.Team) (activities.Teams, error) {
	teams := activities.Teams{Named: map[string]config.Team{}}
	if !t.Cluster {
		teams.Dir = dir(t)
	}
	if len(team.Agents) == 0 {
		return teams, nil
	}
	teams.Named[activities.DefaultTeam] = team
	if t.Cluster {
		return teams, nil
	}
	_, err := teams.Register(team)
	return teams, err
}

// Runner is the process that runs the steps of a team.
type Runner int

// The runners.
const (
	ThisProcess Runner = iota // this command, for its own session
	AnyProcess                // any worker on this machine
	ThisWorker                // this command, for any session
)

// NewTools makes the tools of a process with the default settings.
func NewTools() *worker.Tools { return worker.NewTools(settings.Default()) }

// CheckTools refuses a team whose tools are not available to its runner. Another
// process may have the MCP servers that a team only names; a worker leaves sessions
// whose variables it lacks to other workers.
func CheckTools(ctx context.Context, tools *worker.Tools, team config.Team, r Runner) error {
	err := tools.Check(ctx, team)
	noSandbox, noKey := activities.Lacks(err, activities.NoSandbox), activities.Lacks(err, activities.MissingKey)
	if r == AnyProcess && !noSandbox || r == ThisWorker && noKey {
		return nil
	}
	return err
}
