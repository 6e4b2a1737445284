package start

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/teams"

	"github.com/spf13/cobra"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/session/directory"
)

// stepFlags are the flags of step besides the common ones.
type stepFlags struct {
	dir, criteria  string
	fresh, offline bool
	check, next    bool
	query          *cli.Query
	material       inputs.Flags
}

// StepCommand returns `conclave step`.
func StepCommand(c *cli.CLI) *cobra.Command {
	var f stepFlags
	cmd := &cobra.Command{
		Use:   "step --session-dir DIR (--config FILE | --model NAME) QUERY | --check",
		Short: "Run one step of one agent in a directory, or print who is next",
		Long: `Run one step of one agent, without a server, and exit: the agent sees every answer
in the session directory, and answers, votes or stops. The caller decides who runs
when: a script, a CI job, another agent. --check prints the state of all agents, the
agents to launch next, and the consensus if there is one.

The configuration has exactly one agent. With an id it is that agent of the
directory, without one, or with --model, the next free of agent_a to agent_z. An
interrupted step of the agent is continued, unless --fresh is given.

Exit codes of a step: 0 the agent took its action, 1 wrong usage or configuration and
nothing started, 2 no action, 3 its time ran out, 4 interrupted.
Exit codes of --check: 0 consensus, 2 not yet.`,
		Example: `  conclave step --session-dir s1 --config agent_a.yaml "Tabs or spaces?"
  conclave step --session-dir s1 --config agent_a.yaml --automation "Tabs or spaces?" | tail -n 1 | jq -r .action
  conclave step --check --session-dir s1 | jq -r '.next[]'
  conclave step --check --next --session-dir s1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.check || f.next {
				return cli.Arguments()(cmd, args)
			}
			return f.query.Arguments()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			warnUnused(c, cmd, "step", "address", "namespace", "task-queue", "bucket", "prefix", "data-dir")
			if f.check || f.next {
				warnUnused(c, cmd, "step --check", "base", "context", "include-secrets", "eval-criteria", "fresh", "offline", "model", "agents", "worker-config")
				return checkDirectory(c, f)
			}
			query, err := f.query.Read(cmd.Context(), args)
			if err != nil {
				return err
			}
			return runStep(cmd.Context(), c, f, query)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	f.query = cli.NewQuery(c, "QUERY", set)
	set.StringVar(&f.dir, "session-dir", "", "session directory `DIR`, created if it is missing")
	teams.ModelFlags(c, set)
	f.material.Add(set)
	teams.ShellFlags(c, set, "the agent")
	set.StringVar(&f.criteria, "eval-criteria", "", "evaluation criteria `FILE` (JSON; default eval_criteria.json of the directory)")
	set.BoolVar(&f.fresh, "fresh", false, "start a new step even if one of the agent was interrupted")
	set.BoolVar(&f.offline, "offline", false, "replace the model by the built-in deterministic one: no key, no network")
	teams.WorkerConfigFlag(c, set)
	set.BoolVar(&f.check, "check", false, "run nothing; print the state of all agents as JSON")
	set.BoolVar(&f.next, "next", false, "with --check: print only the agents to launch next, one a line")
	return cmd
}

func warnUnused(c *cli.CLI, cmd *cobra.Command, name string, flags ...string) {
	for _, flag := range flags {
		if cmd.Flags().Changed(flag) {
			c.Warnf("--%s has no effect on %s", flag, name)
		}
	}
}

// stepOrder is the validated input of a step.
type stepOrder struct {
	stepFlags // flags with an absolute dir
	query     string
	team      config.Team // team of one agent, whose ID may be empty
	criteria  json.RawMessage
	worker    *teams.Worker
}

func newStepOrder(c *cli.CLI, f stepFlags, query string) (stepOrder, error) {
	o := stepOrder{stepFlags: f, query: query}
	if f.dir == "" {
		return o, errors.New("no session directory is named; name one with --session-dir DIR")
	}
	var err error
	if err := f.material.Check(); err != nil {
		return o, err
	}
	if name, named := f.material.Source(); named {
		return o, fmt.Errorf("--base source:%s is read by the worker of a session or a pipeline; give a step a directory", name)
	}
	if o.dir, err = filepath.Abs(f.dir); err != nil {
		return o, fmt.Errorf("find the session directory %s: %w", f.dir, err)
	}
	if o.worker, err = teams.OpenWorker(c, cli.Target{}); err != nil {
		return o, err
	}
	teams.PreferShell(c, f.material.HasBase())
	if o.team, err = singleTeam(c, o.worker, f.offline); err != nil {
		return o, err
	}
	for _, key := range o.team.SessionOnly() {
		c.Warnf("orchestrator.coordination.%s has no effect in a step by hand: only sessions have it", key)
	}
	// The shell must not execute programs in the session directory.
	o.worker.Tools.Keep(o.dir)
	o.criteria, err = teams.ReadCriteria(c, f.criteria)
	return o, err
}

func singleTeam(c *cli.CLI, w *teams.Worker, offline bool) (config.Team, error) {
	single, err := w.LoadSingle(c, offline)
	if err != nil || offline {
		return single, err
	}
	if err := w.FindKeys(c, single); err != nil {
		return single, err
	}
	single = w.Resolve(single)
	return single, w.Startable(withName(single))
}

func withName(single config.Team) config.Team {
	if agent := single.Agents[0]; agent.ID == "" {
		agent.ID = "the agent"
		single.Agents = []config.Agent{agent}
	}
	return single
}

// checkDirectory prints the state of a session directory: every agent that has a step there, and the
// agents of --config, whose rules apply. The exit code is ExitOK for a consensus and
// ExitNoAnswer otherwise.
func checkDirectory(c *cli.CLI, f stepFlags) error {
	root, err := openSession(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var rules coordination.Config
	if c.Config != "" {
		team, err := teams.Read(c.Config, config.Local)
		if err != nil {
			return err
		}
		rules = directory.Rules(team)
	}
	found, warnings, err := directory.Read(root)
	if err != nil {
		return fmt.Errorf("check the session directory %s: %w", f.dir, err)
	}
	report := found.Check(rules, found.Running(root))
	report.Warnings = append(report.Warnings, warnings...)
	for _, w := range warnings {
		c.Warnf("%s", w)
	}
	if f.next {
		err = c.Print(strings.Join(append(report.Next, ""), "\n"))
	} else {
		err = c.PrintJSON(report)
	}
	if err != nil {
		return err
	}
	if report.Consensus == nil {
		return cli.Exit(cli.ExitNoAnswer)
	}
	return nil
}

// openSession opens an existing session directory, by its absolute path.
func openSession(dir string) (*os.Root, error) {
	if dir == "" {
		return nil, errors.New("no session directory is named; name one with --session-dir DIR")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the session directory %s: %w", dir, err)
	}
	root, err := os.OpenRoot(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no session directory %s; name one with --session-dir DIR", dir)
	case err != nil:
		return nil, fmt.Errorf("open the session directory %s: %w; name one with --session-dir DIR", dir, err)
	}
	return root, nil
}
