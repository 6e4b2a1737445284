package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/chat"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/api/mcp"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/cluster"
)

// teams are the teams offered by a server, with the worker that runs their sessions. The workers of
// a cluster know a team without agents by its name.
type servedTeams struct {
	worker  *teams.Worker
	named   map[string]config.Team // the default among them
	source  string                 // source of the default team
	offline bool
}

// chooseTeams returns the default team, chosen as by `conclave run`, and the teams
// of --worker-config. With keys it also finds those of the user's file.
func chooseTeams(ctx context.Context, c *cli.CLI, t cli.Target, offline, keys bool) (servedTeams, error) {
	out := servedTeams{offline: offline}
	switch {
	case t.Cluster && c.Bucket == "":
		return out, errors.New("a cluster's sessions have their answers in a bucket: name it with --bucket, its credentials and endpoint with AWS_*")
	case t.Cluster:
		return out, out.chooseOnCluster(c)
	}
	var err error
	if out.worker, err = teams.OpenWorker(c, t); err != nil {
		return out, err
	}
	standard, source, err := out.worker.Default(c, config.Local, offline)
	switch {
	case err != nil || offline:
	case keys:
		standard, err = out.worker.Prepare(c, standard)
	default:
		standard = out.worker.Resolve(standard)
		err = out.worker.Startable(standard)
	}
	if err == nil {
		err = out.worker.Serves(ctx, standard)
	}
	if err != nil {
		return out, err
	}
	out.source = "default: " + teams.Describe(standard) + " from " + source
	out.named = map[string]config.Team{activities.DefaultTeam: standard}
	for _, name := range out.worker.Names() {
		of := out.worker.Settings.Teams[name]
		if name == activities.DefaultTeam {
			continue
		}
		if offline {
			of = of.Offline()
		} else if err := errors.Join(out.worker.Startable(of), out.worker.Serves(ctx, of)); err != nil {
			c.Infof("warning: sessions of the team %s will wait: %v", name, err)
		}
		out.named[name] = of
	}
	return out, nil
}

// chooseOnCluster chooses the team of --config or --model, or else the default of the cluster's
// workers, and the teams named in their worker configuration.
func (t *servedTeams) chooseOnCluster(c *cli.CLI) error {
	t.named = map[string]config.Team{}
	if c.WorkerConfig != "" {
		known, err := worker.LoadSettings(c.WorkerConfig)
		if err != nil {
			return err
		}
		for name := range known.Teams {
			t.named[name] = config.Team{}
		}
	}
	t.source, t.named[activities.DefaultTeam] = "default: that of the cluster's workers", config.Team{}
	if c.NamesTeam() || t.offline {
		of, source, err := teams.Load(c, config.Cluster, t.offline)
		if err != nil {
			return err
		}
		t.source, t.named[activities.DefaultTeam] = "default: "+teams.Describe(of)+" from "+source, of
	}
	return nil
}

// OfferTeams makes teams available to the workers and returns them, the default one first. A team
// without agents is one that the workers have. The first agent of the default team alone is offered
// for the side requests of clients, unless the operator has a team of that name.
func OfferTeams(conn *cli.Connection, teams map[string]config.Team) (offered []gateway.Team, err error) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(teams)), func(name string) bool { return name == activities.DefaultTeam })
	for _, name := range append([]string{activities.DefaultTeam}, names...) {
		of := gateway.WorkersTeam(name)
		if len(teams[name].Agents) > 0 {
			if of, err = gateway.NewTeam(conn, name, teams[name]); err != nil {
				return nil, err
			}
		}
		offered = append(offered, of)
	}
	if _, taken := teams[gateway.Single]; taken || len(teams[activities.DefaultTeam].Agents) == 0 {
		return offered, nil
	}
	alone, err := gateway.NewTeam(conn, gateway.Single, teams[activities.DefaultTeam].Alone())
	alone.Aside = true
	return append(offered, alone), err
}

func modelOf(t gateway.Team) string { return chat.ModelName(t.Name) }

// loadKeys reads the file of --keys; nil without one. It warns of faults that the file gets
// while the server runs.
func loadKeys(c *cli.CLI, file string) (*access.Keys, error) {
	if file == "" {
		return nil, nil
	}
	keys, err := access.LoadKeys(file)
	if err != nil {
		return nil, err
	}
	keys.Faulty = func(err error) {
		c.Warnf("the keys have changed: %v; admitted now: %s", err, cmp.Or(strings.Join(callerNames(keys), ", "), "nobody"))
	}
	return keys, nil
}

func callerNames(keys *access.Keys) (names []string) {
	for _, c := range keys.Callers() {
		names = append(names, c.Name)
	}
	return names
}

func warnOfTeams(c *cli.CLI, keys *access.Keys, offered []gateway.Team) {
	var known []string
	for _, t := range offered {
		known = append(known, t.Name)
	}
	for _, by := range keys.Callers() {
		for _, t := range by.Teams {
			if !slices.Contains(known, t) {
				c.Warnf("the key of %s is for the team %q, which this server does not offer; its teams are %s", by.Name, t, strings.Join(known, ", "))
			}
		}
	}
}

func mcpCommand(c *cli.CLI) *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve teams to a coding agent, as an MCP server on standard input and output",
		Long: `Serve the Model Context Protocol on standard input and output, until the input ends.
The client's model gets the tools ask_team, session_status, session_result, say,
decide_now and session_diff; the answers and files of sessions are resources.

With base "." ask_team gives the team the files of the client's root, if the client
grants one; session_diff is the change that the answer makes to them.

ask_team returns the answer, or after wait_seconds (45) the session's ID, with which
session_result waits again: no time limit of a client loses an answer. A session
that is not over when the client ends continues with the next run, watch, dev, serve
or mcp on the same data directory, or with the workers of a cluster.

CONCLAVE_CONFIG names the team's file where a launcher takes --config for its own.`,
		Example: `  conclave mcp
  conclave mcp --offline
  conclave mcp --model anthropic:claude-sonnet-4-5
  conclave mcp --config team.yaml
  CONCLAVE_CONFIG=team.yaml npx @modelcontextprotocol/inspector --cli conclave mcp --method tools/list`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runMCP(cmd.Context(), c, offline) },
	}
	cmd.Flags().SortFlags = false
	teams.ModelFlags(c, cmd.Flags())
	cmd.Flags().BoolVar(&offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
	teams.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

// configVariable names the team's file where a launcher takes the flag --config for its own.
const configVariable = "CONCLAVE_CONFIG"

// runMCP serves until the input or ctx ends. It writes only the protocol to stdout.
func runMCP(ctx context.Context, c *cli.CLI, offline bool) error {
	if !c.NamesTeam() {
		c.Config = os.Getenv(configVariable)
	}
	t, err := c.Target()
	if err != nil {
		return err
	}
	chosen, err := chooseTeams(ctx, c, t, offline, true)
	if err != nil {
		return err
	}
	logger := cluster.Warnings(c.Stderr)
	return openTarget(ctx, c, t, chosen, logger, func(conn *cli.Connection, offered []gateway.Team) error {
		d := gateway.New(conn, offered, "stdio")
		err := mcp.Run(ctx, d, mcp.Options{Version: c.Version, Local: true}, mcp.Lines(c.Stdin, c.Stdout))
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}
