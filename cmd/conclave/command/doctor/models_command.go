package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/text"
)

// ModelsCommand returns `conclave models`.
func ModelsCommand(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "models",
		Short:   "Test the models of a team, or list those of a service: check, list",
		Long:    "Check the models of a team before a session uses them, or list the models that services and local servers have.",
		Example: "  conclave models check --config team.yaml\n  conclave models list anthropic",
		RunE:    cli.Group,
	}
	cmd.AddCommand(checkCommand(c), listModelsCommand(c))
	return cmd
}

func listModelsCommand(c *cli.CLI) *cobra.Command {
	kinds := config.ListedTypes()
	return &cobra.Command{
		Use:   "list [KIND]",
		Short: "List the models that a service or a local server has",
		Long: `List the models that the API of a service or of a local server lists, one a line, in the form
that --model takes. KIND is one of ` + strings.Join(kinds, ", ") + `.

Without KIND the services are those whose key is set, and the local servers those that
answer at their usual addresses.`,
		Example: `  conclave models list
  conclave models list anthropic
  conclave models list --json openrouter | jq -r '.models[] | select(.context_window > 200000) | .model'`,
		Args: cobra.MaximumNArgs(1), ValidArgs: kinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !slices.Contains(kinds, args[0]) {
				meant := ""
				if near, ok := text.Nearest(args[0], kinds); ok {
					meant = "did you mean " + near + "? "
				}
				return fmt.Errorf("%q is no kind whose models can be listed; %sThere are %s", text.Truncate(args[0], cli.MaxEcho), meant, strings.Join(kinds, ", "))
			}
			return listModels(cmd.Context(), c, kinds, args)
		},
	}
}

// listTimeout is how long services may take to list their models.
const listTimeout = 30 * time.Second

// listedModel is a model in the JSON output of models list.
type listedModel struct {
	Type          string `json:"type"`
	Model         string `json:"model"`
	ContextWindow int    `json:"context_window,omitzero"` // in tokens, if the server states it
}

// listModels lists the models of the asked kind, or of all that can be reached. The failure of one does
// not hide the others.
func listModels(ctx context.Context, c *cli.CLI, kinds, asked []string) error {
	w, err := teams.OpenWorker(c, cli.Target{})
	switch {
	case err != nil:
	case len(asked) > 0:
		_, err = w.Prepare(c, teams.OfKinds(asked))
	default:
		if err = w.FindKeys(c, teams.OfKinds(kinds)); err != nil {
			return err
		}
		asked = append(asked, text.Each(w.Reachable(ctx), func(s teams.Reachable) string { return s.Kind })...)
		if len(asked) == 0 {
			err = errors.New("no key of a known service is set, and no local server answers at its usual address; set a key such as ANTHROPIC_API_KEY, or start a server such as ollama")
		}
	}
	if err != nil {
		return err
	}
	all, failures := []listedModel{}, []error{}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for _, kind := range asked {
		listed, err := w.Models.List(ctx, kind)
		if err == nil && len(listed) == 0 {
			err = fmt.Errorf("list the models of %s: its server has none; load or pull one there", kind)
		}
		if err != nil {
			failures = append(failures, err)
		}
		for _, l := range listed {
			all = append(all, listedModel{kind, l.ID, l.Window()})
		}
	}
	if len(failures) == len(asked) {
		return errors.Join(failures...)
	}
	for _, err := range failures {
		c.Warnf("%v", err)
	}
	if c.Scripted() {
		return c.PrintJSON(map[string][]listedModel{"models": all})
	}
	var b strings.Builder
	for _, m := range all {
		b.WriteString(cli.Line(m.Type+":"+m.Model) + "\n")
	}
	return c.Print(b.String())
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

The team comes from --config or --model, else it is that of --team, or the default, in the file of
--worker-config, else ./conclave.yaml or the built-in team.

A model that calls no tool can take part with answers and votes in plain text, unless the
team has text_answers: never, decomposition or a round evaluator.

Exit codes: 0 all models can take part, 1 at least one cannot, and the remedy is printed;
4 interrupted.`,
		Example: `  conclave models check
  conclave models check --model ollama:llama3.2:3b
  conclave models check --config team.yaml
  conclave models check --worker-config worker.yaml --team reviewers
  conclave models check --json | jq -r '.models[] | select(.ok | not) | .detail'`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return checkModels(cmd.Context(), c, f) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	teams.ModelFlags(c, set)
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
	if err := teams.CheckFlags(c, name); err != nil {
		return checked, "", err
	}
	switch {
	case name != "":
		checked, source, found := w.Team(name)
		if !found {
			return checked, "", fmt.Errorf("there is no team %q; define it in the file of --worker-config, or name a team's file with --config", name)
		}
		return checked, source, nil
	case !c.NamesTeam():
		if checked, source, found := w.Team(activities.DefaultTeam); found {
			return checked, source, nil
		}
	}
	checked, source, err = w.Load(c, config.Local, false)
	if err != nil && c.Config != "" {
		// A scenario or a step has a single agent, which needs no ID.
		if single, singleErr := teams.ReadSingle(c, teams.Choose(c), false); singleErr == nil {
			checked, source, err = single, c.Config, nil
		}
	}
	return w.Resolve(checked), source, err
}
