package serve

import (
	"context"
	"errors"
	"strings"

	"conclave/activities"
	"conclave/cmd/conclave/chat"
	"conclave/cmd/conclave/desk"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/worker/settings"
)

// teams are the teams offered by a server, with the worker that runs their sessions.
type teams struct {
	worker  *team.Worker
	named   []named // teams, the default first
	source  string  // source of the default team
	offline bool
}

// named is a team with its name. If the team has no agents, the workers of a cluster
// know it by its name.
type named struct {
	name string
	team config.Team
}

// chooseTeams returns the default team, chosen as by `conclave run`, and the teams
// of --worker-config.
func chooseTeams(ctx context.Context, c *hall.CLI, t hall.Target, offline bool) (teams, error) {
	out := teams{offline: offline}
	switch {
	case t.Cluster && c.Bucket == "":
		return out, errors.New("a cluster's sessions have their answers in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	case t.Cluster:
		return out, out.chooseOnCluster(c)
	}
	var err error
	if out.worker, err = team.OpenWorker(c, t); err != nil {
		return out, err
	}
	standard, source, found := out.worker.Team(activities.DefaultTeam)
	switch {
	case found && c.Config != "":
		return out, errors.New("--config, but " + c.WorkerConfig + " has a default team, too; leave out --config or teams.default")
	case found && offline:
		standard = standard.Offline()
	case found:
		err = out.worker.Startable(standard)
	default:
		standard, source, err = team.Local(c, out.worker, offline)
	}
	if err == nil {
		err = out.worker.Serves(ctx, standard)
	}
	if err != nil {
		return out, err
	}
	out.source = "default: " + team.Describe(standard) + " from " + source
	out.named = []named{{activities.DefaultTeam, standard}}
	for _, name := range out.worker.Names() {
		of, _, _ := out.worker.Team(name)
		if name == activities.DefaultTeam {
			continue
		}
		if offline {
			of = of.Offline()
		} else if err := errors.Join(out.worker.Startable(of), out.worker.Serves(ctx, of)); err != nil {
			c.Infof("warning: sessions of the team %s will wait: %v", name, err)
		}
		out.named = append(out.named, named{name, of})
	}
	return out, nil
}

// chooseOnCluster chooses the team of --config, or else the default of the cluster's
// workers, and the teams named in their worker configuration.
func (t *teams) chooseOnCluster(c *hall.CLI) error {
	standard := named{name: activities.DefaultTeam}
	t.source = "default: that of the cluster's workers"
	if c.Config != "" || t.offline {
		of, source, err := team.Load(c, config.Cluster, t.offline)
		if err != nil {
			return err
		}
		standard.team, t.source = of, "default: "+team.Describe(of)+" from "+source
	}
	t.named = []named{standard}
	if c.WorkerConfig == "" {
		return nil
	}
	known, err := settings.Load(c.WorkerConfig)
	if err != nil {
		return err
	}
	for name := range known.Teams {
		if name != activities.DefaultTeam {
			t.named = append(t.named, named{name: name})
		}
	}
	return nil
}

// offer makes the teams available to the workers.
func (t teams) offer(conn *hall.Connection) ([]desk.Team, error) {
	var offered []desk.Team
	for _, n := range t.named {
		of := desk.WorkersTeam(n.name)
		if len(n.team.Agents) > 0 {
			var err error
			if of, err = desk.NewTeam(conn, n.name, n.team); err != nil {
				return nil, err
			}
		}
		offered = append(offered, of)
	}
	return offered, nil
}

// modelOf returns the model that stands for a team.
func modelOf(t desk.Team) string { return chat.ModelName(t.Name) }

func list(names []string) string { return strings.Join(names, ", ") }
