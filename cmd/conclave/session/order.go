package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	sessionflow "conclave/workflows/session"
)

// order is the validated input of a session.
type order struct {
	id      string
	input   sessionflow.Input
	team    config.Team // the zero value if a cluster's worker has it
	source  string      // source of the team
	offline bool
}

// newOrder checks the flags and the query.
func newOrder(c *hall.CLI, t hall.Target, w *team.Worker, f flags, query string) (order, error) {
	o := order{offline: f.offline, input: sessionflow.Input{Query: query, Continues: f.continues}}
	var err error
	if o.id, err = hall.ChooseRunID("--session-id", f.id); err != nil {
		return o, err
	}
	if o.input.EvalCriteria, err = team.ReadCriteria(c, f.criteria); err != nil {
		return o, err
	}
	switch {
	case f.team != "" && c.Config != "":
		return o, errors.New("--team and --config exclude each other; leave one out")
	case f.continues != "" && f.team == "" && c.Config == "":
		return o, nil // its team is known once the store is connected
	case f.team != "" && f.offline:
		return o, errors.New("--offline replaces the models of a configuration, not those of a worker's team; leave out --team")
	case t.Cluster:
		return o, o.chooseClusterTeam(c, f.team)
	}
	return o, o.chooseLocalTeam(c, t, w, f.team)
}

// chooseLocalTeam chooses a team of --worker-config, the default of the data directory, or
// the team of this invocation.
func (o *order) chooseLocalTeam(c *hall.CLI, t hall.Target, w *team.Worker, name string) (err error) {
	if name != "" || c.Config == "" {
		of, source, found := w.Team(cmp.Or(name, activities.DefaultTeam))
		if found && o.offline {
			o.team, o.source = of.Offline(), source
			return nil
		}
		if found {
			o.team, o.source = of, source
			return w.Startable(of)
		}
	}
	if name != "" && name != activities.DefaultTeam {
		return fmt.Errorf("there is no team %q here, only %s; %q is that of dev or worker, else ./%s or the built-in team; give your own with --config FILE, or define it in the file of --worker-config",
			name, w.Known(), activities.DefaultTeam, team.ProjectFile)
	}
	if name == activities.DefaultTeam {
		standard, found, err := team.Default(t)
		if err != nil {
			return err
		}
		if found {
			o.team, o.source = standard, "the default of "+t.DataDir
			return w.Startable(standard)
		}
	}
	o.team, o.source, err = team.Local(c, w, o.offline)
	return err
}

// chooseClusterTeam names a team of the workers, or sends the team of this invocation.
func (o *order) chooseClusterTeam(c *hall.CLI, name string) error {
	if name != "" {
		o.input.Team, o.source = name, "the cluster's team "+name
		return nil
	}
	var err error
	if o.team, o.source, err = team.Load(c, config.Cluster, o.offline); err != nil {
		return err
	}
	if o.input.Config, err = o.team.Canonical(); err != nil {
		return fmt.Errorf("encode the team of %s: %w", o.source, err)
	}
	return nil
}

// store uploads the files that the session starts from and registers its team.
func (o *order) store(ctx context.Context, conn *hall.Connection, f flags) (err error) {
	if o.input.Material, err = f.material.Upload(ctx, conn); err != nil {
		return err
	}
	if o.input.Checks, err = uploadChecks(ctx, conn, f.checks); err != nil {
		return err
	}
	if !conn.Cluster {
		o.input.Team, err = team.Registry(conn.Target).Register(o.team)
	}
	return err
}

// run returns the order for package runs.
func (o *order) run(f flags) runs.Order {
	source := ""
	if len(o.team.Agents) > 0 {
		source = "team from " + o.source + ": " + team.Describe(o.team)
	}
	return runs.Order{
		Kind: Kind(), ID: o.id, Query: o.input.Query, Source: source, Offline: o.offline, Input: o.input, IDFlag: "--session-id",
		Continues: o.input.Continues, Team: cmp.Or(f.team, o.source),
	}
}
