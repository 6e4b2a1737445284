package scenario

import (
	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/engine/scenario"
)

// Command is `conclave scenario`.
func Command(c *hall.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scenario",
		Short: "Test an application by user journeys: create, run, status, list, …",
		Long: `Test an application by user journeys. A scenario is an ordered list of steps, each
in a file of its own. For each step a new agent, with a fresh conversation and the
tools of the team file (a browser above all), records evidence and returns pass or
fail. The first step that does not pass ends the run.

Scenarios are in DIR/scenarios. DIR/prd.md tells agents about the application.
Results and evidence appear beside each scenario, in runs.`,
		Example: `  conclave scenario create shop buy --step "Open: go to the start page" --step "Buy: buy the lamp"
  conclave scenario create shop sign-in --from journey.md
  conclave scenario run shop --all --config tester.yaml --junit report.xml
  conclave scenario status shop buy`,
		RunE: hall.Group,
	}
	cmd.AddCommand(
		createCommand(c), runCommand(c), statusCommand(c), listCommand(c),
		watchCommand(c), pauseCommand(c), resumeCommand(c), cancelCommand(c),
	)
	return cmd
}

// commandLine is the command line of a subcommand for a run.
func commandLine(c *hall.CLI, command, dir string, r *run) string {
	return c.CommandLine("scenario "+command, hall.ShellQuote(dir), r.slug, r.id)
}

// checkNames refuses names that could lead out of their folder. Empty names are
// accepted.
func checkNames(slug, id string) error {
	if slug != "" {
		if err := scenario.CheckSlug(slug); err != nil {
			return err
		}
	}
	if id != "" {
		return scenario.CheckRunID(id)
	}
	return nil
}
