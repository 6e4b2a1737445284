package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/engine/config"
	"conclave/worker"
	"conclave/worker/settings"
	"conclave/workflows/drive"
)

// stepFlags are what step takes beyond the common flags.
type stepFlags struct {
	dir, criteria  string
	fresh, offline bool
	check, next    bool
}

func (c *cli) stepCommand() *cobra.Command {
	var flags stepFlags
	cmd := &cobra.Command{
		Use:   "step --session-dir DIR (--config FILE QUERY | --check)",
		Short: "Run one step of one agent in a directory, or say who is next",
		Long: `Run one step of one agent, without a server, and exit: the agent is shown every
answer in the session directory, and answers, votes or stops. Who runs when is for
the caller: a script, a CI job, another agent. --check says where everybody is, who
is to be launched next, and whether there is a consensus.

The configuration has exactly one agent. With an id it is that agent of the
directory, without one the next free of agent_a to agent_z. A step of the agent
that was interrupted goes on where it was, unless --fresh is given.

Exit codes of a step: 0 it came to its action, 1 wrong usage or configuration and
nothing started, 2 no action, 3 its time ran out, 4 interrupted.
Exit codes of --check: 0 consensus, 2 not yet.`,
		Example: `  conclave step --session-dir s1 --config agent_a.yaml "Tabs or spaces?"
  conclave step --session-dir s1 --config agent_a.yaml --automation "Tabs or spaces?" | tail -n 1 | jq -r .action
  conclave step --check --session-dir s1 | jq -r '.next[]'
  conclave step --check --next --session-dir s1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.check || flags.next {
				return arguments()(cmd, args)
			}
			return arguments("QUERY")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.sayUnused(cmd, "step", "address", "namespace", "task-queue", "bucket", "prefix", "data-dir")
			if flags.check || flags.next {
				c.sayUnused(cmd, "step --check", "eval-criteria", "fresh", "offline")
				return c.stepCheck(flags)
			}
			return c.step(cmd.Context(), flags, args[0])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&flags.dir, "session-dir", "", "session directory `DIR`, made if it is not there")
	f.StringVar(&flags.criteria, "eval-criteria", "", "evaluation criteria `FILE` (JSON; default eval_criteria.json of the directory)")
	f.BoolVar(&flags.fresh, "fresh", false, "begin anew, also if a step of the agent was interrupted")
	f.BoolVar(&flags.offline, "offline", false, "replace the model by the built-in deterministic one: no key, no network")
	f.BoolVar(&flags.check, "check", false, "run nothing; print where everybody is, as JSON")
	f.BoolVar(&flags.next, "next", false, "with --check: print nothing but who is to be launched next, one a line")
	return cmd
}

// sayUnused names the flags that were given and have no effect on a command.
func (c *cli) sayUnused(cmd *cobra.Command, name string, flags ...string) {
	for _, flag := range flags {
		if cmd.Flags().Changed(flag) {
			c.complain("--%s has no effect on %s", flag, name)
		}
	}
}

// wantedStep is a checked wish to run a step.
type wantedStep struct {
	stepFlags
	dir      string // absolute
	query    string
	team     config.Team // of one, whose ID may be empty
	criteria json.RawMessage
}

// wantStep checks everything that can be wrong with the input.
func (c *cli) wantStep(flags stepFlags, query string) (wantedStep, error) {
	w := wantedStep{stepFlags: flags, query: query}
	if flags.dir == "" {
		return w, errors.New("no session directory is named; name one with --session-dir DIR")
	}
	if len(query) > drive.MaxQuery {
		return w, fmt.Errorf("the QUERY has %d bytes, at most %d are accepted; put large material where the agents can read it", len(query), drive.MaxQuery)
	}
	if !utf8.ValidString(query) {
		return w, errors.New("the QUERY is not UTF-8 text; convert it, for instance with iconv")
	}
	var err error
	if w.dir, err = filepath.Abs(flags.dir); err != nil {
		return w, fmt.Errorf("find the session directory %s: %w", flags.dir, err)
	}
	if w.team, err = c.singleTeam(flags.offline); err != nil {
		return w, err
	}
	w.criteria, err = readCriteria(flags.criteria)
	return w, err
}

// singleTeam is the team of one that a step is of.
func (c *cli) singleTeam(offline bool) (config.Team, error) {
	file := c.config
	if file == "" {
		if _, err := os.Lstat(projectFile); errors.Is(err, fs.ErrNotExist) {
			return config.Team{}, errors.New("a step needs a configuration with exactly one agent; name its file with --config FILE")
		}
		file = projectFile
	}
	data, err := readTeamFile(file)
	if err != nil {
		return config.Team{}, err
	}
	team, err := config.ParseSingle(file, data)
	if err != nil {
		return team, err
	}
	if offline {
		return team.Offline(), nil
	}
	team = resolveModels(team)
	return team, named(team, func(team config.Team) error {
		return errors.Join(startable(team), worker.Models{}.CheckProviders(team))
	})
}

// named asks for problems of a team whose agent may have no name to put them to.
func named(team config.Team, problems func(config.Team) error) error {
	if agent := team.Agents[0]; agent.ID == "" {
		agent.ID = "the agent"
		team.Agents = []config.Agent{agent}
	}
	return problems(team)
}

// stepTools are the tools of a step's process. No program that the shell of an
// agent may use can be in the session directory.
func stepTools(dir string) *worker.Tools {
	tools := worker.NewTools(settings.Default())
	tools.Keep(dir)
	return tools
}
