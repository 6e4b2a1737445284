package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
)

// ModelsCommand returns `conclave models`.
func ModelsCommand(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "models",
		Short:   "Test the models of a team",
		Long:    "Check the models of a team before a session uses them.",
		Example: "  conclave models check --config team.yaml",
		RunE:    cli.Group,
	}
	cmd.AddCommand(checkCommand(c))
	return cmd
}

// flags are the flags of models check besides the common ones.
type modelFlags struct {
	team    string
	timeout time.Duration
}

func checkCommand(c *cli.CLI) *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Make one small call with one tool to every model of a team",
		Long: `Make one small call with one tool to every model of a team, and report for each whether
its server responds, whether the model calls the tool (as a call of the API, as text, or
not at all), the context window (as configured, else as conclave assumes it from its own
table, else as the server's list of models states it), the tokens that the server counts,
including cached ones, and the output tokens per second. Agents with the same model share
a call. The calls are charged like any others.

The team comes from --config, else it is that of --team, or the default, in the file of
--worker-config, else ./conclave.yaml or the built-in team.

A model that calls no tool can take part with answers and votes in plain text, unless the
team has text_answers: never, decomposition or a round evaluator.

Exit codes: 0 all models can take part, 1 at least one cannot, and the remedy is printed;
4 interrupted.`,
		Example: `  conclave models check
  conclave models check --config team.yaml
  conclave models check --worker-config worker.yaml --team reviewers
  conclave models check --json | jq -r '.models[] | select(.ok | not) | .detail'`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return checkModels(cmd.Context(), c, f) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.team, "team", "", "check the team `NAME` of --worker-config")
	teams.WorkerConfigFlag(c, set)
	set.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long one model may take; a local server may have to load it first")
	return cmd
}

func checkModels(ctx context.Context, c *cli.CLI, f modelFlags) error {
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout is %s; it takes a positive duration", f.timeout)
	}
	r, err := checkTeam(ctx, c, f.team, f.timeout)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return cli.Exitf(cli.ExitInterrupted, "interrupted: not all models were asked")
	}
	if err := showModels(c, r); err != nil {
		return err
	}
	if !r.OK {
		return cli.Exit(cli.ExitUsage)
	}
	return nil
}

// checkTeam makes the calls of `conclave models check`. It checks the team of --worker-config with the
// given name. If the name is empty, it checks the team of --config or the default one.
func checkTeam(ctx context.Context, c *cli.CLI, name string, timeout time.Duration) (ModelsReport, error) {
	w, err := teams.OpenWorker(c, cli.Target{})
	if err != nil {
		return ModelsReport{}, err
	}
	checked, source, err := loadTeam(c, w, name)
	if err != nil {
		return ModelsReport{}, err
	}
	w.Models.AtOnce = true
	r := ModelsReport{OK: true, Models: distinctModels(checked)}
	c.Infof("asking %s of %s", cli.Plural(len(r.Models), "model"), source)
	askModels(ctx, w.Models, r.Models, timeout)
	for _, m := range r.Models {
		r.OK = r.OK && m.OK
	}
	return r, nil
}

// loadTeam returns the team to check. A missing key is a result of the check, not an error.
func loadTeam(c *cli.CLI, w *teams.Worker, name string) (checked config.Team, source string, err error) {
	switch {
	case name != "" && c.Config != "":
		return checked, "", errors.New("--team and --config exclude each other; leave one out")
	case name != "":
		checked, source, found := w.Team(name)
		if !found {
			return checked, "", fmt.Errorf("there is no team %q; define it in the file of --worker-config, or name a team's file with --config", name)
		}
		return checked, source, nil
	case c.Config == "":
		if checked, source, found := w.Team(activities.DefaultTeam); found {
			return checked, source, nil
		}
	}
	checked, source, err = teams.Load(c, config.Local, false)
	if err != nil && c.Config != "" {
		// A scenario or a step has a single agent, which needs no ID.
		if single, singleErr := teams.ReadSingle(c, teams.Choose(c), false); singleErr == nil {
			checked, source, err = single, c.Config, nil
		}
	}
	return teams.Resolve(checked), source, err
}
