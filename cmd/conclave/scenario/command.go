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
in a file; each step is carried out by an agent of its own with a fresh
conversation and the tools of the team file, a browser above all. It records
evidence and returns pass or fail. The first step that does not pass ends the run.

Scenarios are in DIR/scenarios, what agents are told of the application is in
DIR/prd.md, and results and evidence appear beside each scenario under runs.`,
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

// workflow is the ID of the workflow of a run.
func workflow(slug, run string) string { return "scenario-" + slug + "-" + run }

// commandLine is the command line with which a person gets back to a run.
func commandLine(c *hall.CLI, command, dir, slug, run string) string {
	return c.CommandLine("scenario "+command, hall.ShellQuote(dir), slug, run)
}

// checkNames refuses names that would leave their folder, before anything is
// looked for.
func checkNames(slug, run string) error {
	if slug != "" {
		if err := scenario.CheckSlug(slug); err != nil {
			return err
		}
	}
	if run != "" {
		return scenario.CheckRunID(run)
	}
	return nil
}
