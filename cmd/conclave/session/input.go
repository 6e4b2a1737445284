package session

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	sessionflow "conclave/workflows/session"
)

// flags are the flags of run and start besides the common ones.
type flags struct {
	team, criteria, id string
	offline            bool
}

func (f *flags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.team, "team", "", "use the worker's team `NAME` instead of a configuration")
	set.StringVar(&f.criteria, "eval-criteria", "", "evaluation criteria `FILE` (JSON)")
	set.StringVar(&f.id, "session-id", "", "`ID` of the session (default a new one)")
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
}

// order is the checked input of a session to start.
type order struct {
	id      string
	input   sessionflow.Input
	team    config.Team // the zero value if a cluster's worker has it
	source  string      // of the team
	offline bool
}

// newOrder checks the flags and the query.
func newOrder(c *hall.CLI, t hall.Target, f flags, query string) (order, error) {
	o := order{offline: f.offline, input: sessionflow.Input{Query: query}}
	err := hall.CheckQuery("QUERY", query)
	if err != nil {
		return o, err
	}
	if o.id, err = hall.ChooseRunID("--session-id", f.id); err != nil {
		return o, err
	}
	if o.input.EvalCriteria, err = team.ReadCriteria(f.criteria); err != nil {
		return o, err
	}
	switch {
	case f.team != "" && c.Config != "":
		return o, errors.New("--team and --config exclude each other: a team is named or brought along; leave one out")
	case f.team != "" && f.offline:
		return o, errors.New("--offline replaces the models of a team that is brought along, not of one that the worker names; leave out --team")
	case t.Cluster:
		return o, o.chooseClusterTeam(c, f.team)
	}
	return o, o.chooseLocalTeam(c, t, f.team)
}

// chooseLocalTeam takes the named default team of the data directory, else the team of
// this invocation.
func (o *order) chooseLocalTeam(c *hall.CLI, t hall.Target, name string) (err error) {
	if name != "" && name != activities.DefaultTeam {
		return fmt.Errorf("the local stack has no team %q, only %q, which is that of dev or worker, else ./%s or the built-in team; give your own with --config FILE",
			name, activities.DefaultTeam, team.ProjectFile)
	}
	if name == activities.DefaultTeam {
		standard, found, err := team.Default(t)
		if err != nil {
			return err
		}
		if found {
			o.team, o.source = standard, "the default of "+t.DataDir
			return team.Startable(standard)
		}
	}
	o.team, o.source, err = team.Local(c, o.offline)
	return err
}

// chooseClusterTeam names a team of the cluster's workers, or sends the team of this
// invocation with the input.
func (o *order) chooseClusterTeam(c *hall.CLI, name string) error {
	if name != "" {
		o.input.Team, o.source = name, "the cluster's team "+name
		return nil
	}
	var err error
	if o.team, o.source, err = team.Load(c, config.Cluster); err != nil {
		return err
	}
	if o.offline {
		o.team = o.team.Offline()
	}
	if o.input.Config, err = o.team.Canonical(); err != nil {
		return fmt.Errorf("encode the team of %s: %w", o.source, err)
	}
	return nil
}
