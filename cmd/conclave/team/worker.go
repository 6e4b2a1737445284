package team

import (
	"context"
	"path/filepath"
	"time"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/localstack"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/settings"
)

// RunWorker starts a worker in this process that runs steps, unless a cluster has its own, with
// the data directory's default team. Tools may be nil.
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

// RunObserver starts a worker in this process that runs no steps, unless a cluster has its own.
func RunObserver(conn *hall.Connection) (stop func(), err error) {
	if conn.Cluster {
		return func() {}, nil
	}
	cfg := baseConfig(conn)
	cfg.NoSteps = true
	return worker.Start(cfg)
}

// DefaultWorker returns the configuration of a worker whose default team becomes that of a local
// stack.
func DefaultWorker(conn *hall.Connection, team config.Team) (worker.Config, error) {
	if err := setDefault(conn.Target, team); err != nil {
		return worker.Config{}, err
	}
	return workerConfig(conn, team)
}

// workerConfig returns the configuration of a worker that runs steps. A local stack registers the
// team, so that every worker of the data directory can continue its sessions.
func workerConfig(conn *hall.Connection, team config.Team) (cfg worker.Config, err error) {
	cfg = baseConfig(conn)
	cfg.Teams.Named = map[string]config.Team{}
	if !conn.Cluster {
		cfg.Teams.Dir = dir(conn.Target)
	}
	if len(team.Agents) > 0 {
		cfg.Teams.Named[activities.DefaultTeam] = team
		if !conn.Cluster {
			_, err = cfg.Teams.Register(team)
		}
	}
	return cfg, err
}

// localHeartbeatTimeout is longer than that of a cluster: the stack reaps a dead worker by
// itself, and one busy machine has to serve everything.
const localHeartbeatTimeout = time.Minute

func baseConfig(conn *hall.Connection) worker.Config {
	cfg := worker.Config{Client: conn.Client, Store: conn.Store, TaskQueue: conn.Queue, Cache: worker.DefaultCache()}
	if !conn.Cluster {
		cfg.Scratch = filepath.Join(conn.Target.DataDir, "scratch")
		cfg.Cache = filepath.Join(conn.Target.DataDir, "cache")
		cfg.Roster, cfg.HeartbeatTimeout = localstack.Workers(conn.Target.DataDir), localHeartbeatTimeout
	}
	return cfg
}

// Tools are this process's, checked for the teams, or nil for a cluster, whose workers have theirs.
func Tools(ctx context.Context, t hall.Target, teams ...config.Team) (*worker.Tools, error) {
	if t.Cluster {
		return nil, nil
	}
	tools := worker.NewTools(settings.Default())
	for _, team := range teams {
		if err := tools.Check(ctx, team); err != nil {
			return tools, err
		}
	}
	return tools, nil
}
