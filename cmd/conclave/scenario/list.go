package scenario

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// brief is a scenario in a list.
type brief struct {
	Slug       string           `json:"slug"`
	Title      string           `json:"title"`
	Tags       []string         `json:"tags"`
	StepCount  int              `json:"step_count"`
	LastResult *scenario.Status `json:"last_result"`
	LastRun    *string          `json:"last_run"`
	TotalRuns  int              `json:"total_runs"`
	PassRate   int              `json:"pass_rate"` // of runs that came to a verdict, 0 to 100
	Running    int              `json:"running"`
}

func listCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "list DIR",
		Short: "The scenarios of a directory",
		Long:  "List the scenarios of DIR with their steps, tags and statistics, from what is there. It starts nothing.",
		Example: `  conclave scenario list shop
  conclave scenario list shop --json | jq -r '.[] | select(.tags | index("smoke")) | .slug'`,
		Args: hall.Arguments("DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return list(c, args[0]) },
	}
}

func list(c *hall.CLI, dir string) error {
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	all, err := briefs(c, p)
	if err != nil {
		return err
	}
	if c.Scripted() {
		return c.PrintJSON(all)
	}
	if len(all) == 0 {
		c.Infof("no scenarios in %s", p.Dir())
		return nil
	}
	return printBriefs(c, all)
}

// briefs are the scenarios of a project. One that cannot be read is told of, and
// the others are listed.
func briefs(c *hall.CLI, p *project.Project) ([]brief, error) {
	slugs, err := p.Slugs()
	if err != nil {
		return nil, err
	}
	all := []brief{}
	for _, slug := range slugs {
		status, err := statusOf(c, p, slug)
		if err != nil {
			c.Warnf("%v", err)
			continue
		}
		all = append(all, status.brief)
	}
	return all, nil
}

func printBriefs(c *hall.CLI, all []brief) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCENARIO\tLAST\tWHEN\tRUNS\tPASSED\tSTEPS\tTITLE\tTAGS")
	for _, s := range all {
		last, when := "never run", ""
		if s.LastResult != nil {
			last, when = string(*s.LastResult), progress.Line(*s.LastRun)
		}
		if s.Running > 0 {
			last = string(scenario.Running)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d %%\t%d\t%s\t%s\n", s.Slug, last, when, s.TotalRuns, s.PassRate, s.StepCount,
			text.Truncate(progress.Line(s.Title), hall.MaxEcho), progress.Line(strings.Join(s.Tags, " ")))
	}
	_ = table.Flush() // into memory
	_, err := fmt.Fprint(c.Stdout, hall.TrimLines(b.String()))
	return hall.PrintError(err)
}
