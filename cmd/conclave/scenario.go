package main

import (
	"github.com/spf13/cobra"

	"conclave/engine/scenario"
)

func (c *cli) scenarioCommand() *cobra.Command {
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
		RunE: onlyGroups,
	}
	cmd.SuggestionsMinimumDistance = 2 // as for the commands above it
	cmd.AddCommand(
		c.scenarioCreateCommand(), c.scenarioRunCommand(), c.scenarioStatusCommand(), c.scenarioListCommand(),
		c.scenarioWatchCommand(), c.scenarioPauseCommand(), c.scenarioResumeCommand(), c.scenarioCancelCommand(),
	)
	return cmd
}

// optional demands the named arguments, the last of which may be missing.
func optional(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return arguments(names[:len(names)-1]...)(cmd, args)
		}
		return arguments(names...)(cmd, args)
	}
}

// scenarioWorkflow is the ID of the workflow of a run.
func scenarioWorkflow(slug, run string) string { return "scenario-" + slug + "-" + run }

// scenarioAgain is the command line with which a person gets back to a run.
func (c *cli) scenarioAgain(command, dir, slug, run string) string {
	return c.again("scenario "+command, shellQuote(dir)+" "+slug+" "+run)
}

// checkScenario refuses names that would leave their folder, before anything is
// looked for.
func checkScenario(slug, run string) error {
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
