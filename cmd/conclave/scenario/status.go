package scenario

import (
	"context"
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

// maxRecent is how many runs the status of a scenario shows.
const maxRecent = 10

// projectStatus is what `scenario status DIR --json` prints.
type projectStatus struct {
	Project       string  `json:"project"`
	ScenarioCount int     `json:"scenario_count"`
	Passing       int     `json:"passing"` // by their newest runs
	Failing       int     `json:"failing"`
	NeverRun      int     `json:"never_run"`
	Scenarios     []brief `json:"scenarios"`
}

// detail is what `scenario status DIR SLUG --json` prints.
type detail struct {
	brief
	Steps      []scenario.StepRef  `json:"steps"`
	Statistics scenario.Statistics `json:"statistics"`
	RecentRuns []recentRun         `json:"recent_runs"` // newest first
}

// recentRun is a run in a list.
type recentRun struct {
	RunID       string          `json:"run_id"`
	RunNumber   int             `json:"run_number"`
	Status      scenario.Status `json:"status"`
	StartedAt   string          `json:"started_at"`
	CompletedAt *string         `json:"completed_at"`
	DurationMS  int64           `json:"duration_ms"`
	FailedStep  *string         `json:"failed_step"`
	Error       *string         `json:"error"`

	passed, steps int
}

func statusCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "status DIR [SLUG]",
		Short: "How the scenarios stand, or one of them and its runs",
		Long: `How the scenarios of DIR stand by their newest runs, or one of them with its
statistics and its last runs. Of runs that were cut off it brings what the store
has. It never runs a step.`,
		Example: `  conclave scenario status shop
  conclave scenario status shop buy --json | jq '.recent_runs[0].error'`,
		Args: hall.OptionalLast("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return status(cmd.Context(), c, args[0], append(args, "")[1])
		},
	}
}

func status(ctx context.Context, c *hall.CLI, dir, slug string) error {
	if err := checkNames(slug, ""); err != nil {
		return err
	}
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	slugs := []string{slug}
	if slug == "" {
		if slugs, err = p.Slugs(); err != nil {
			return err
		}
	} else if _, err := p.Describe(slug); err != nil {
		return err
	}
	if err := catchUp(ctx, c, p, slugs); err != nil {
		c.Infof("what the store has of runs that have not ended here is not shown: %v", err)
	}
	if slug != "" {
		return printScenario(c, p, slug)
	}
	return printProject(c, p)
}

// catchUp brings what the store has of runs that were cut off. Without any, no
// stack is started.
func catchUp(ctx context.Context, c *hall.CLI, p *project.Project, slugs []string) error {
	open := false
	for _, slug := range slugs {
		runs, _, err := p.Runs(slug)
		if err != nil {
			return err
		}
		for _, r := range runs {
			open = open || !r.Over()
		}
	}
	if !open {
		return nil
	}
	at, err := c.ConnectStore(ctx)
	if err != nil {
		return err
	}
	defer at.Close()
	pickUp(ctx, at, p, slugs)
	return nil
}

// statusOf is how a scenario stands by the results in its folder.
func statusOf(c *hall.CLI, p *project.Project, slug string) (detail, error) {
	d, err := p.Describe(slug)
	if err != nil {
		return detail{}, err
	}
	runs, problems, err := p.Runs(slug)
	if err != nil {
		return detail{}, err
	}
	for _, problem := range problems {
		c.Warnf("left out: %s", problem)
	}
	s := detail{Steps: d.Plan.Steps, Statistics: scenario.Fold(runs), RecentRuns: []recentRun{}}
	s.brief = brief{
		Slug: slug, Title: d.Plan.Title, Tags: append([]string{}, d.Tags...), StepCount: len(d.Plan.Steps),
		LastResult: s.Statistics.LastResult, LastRun: s.Statistics.LastRun, TotalRuns: s.Statistics.TotalRuns, PassRate: s.Statistics.PassRate(),
	}
	for i, r := range runs {
		if !r.Over() {
			s.Running++
		}
		if i < maxRecent {
			short := recent(r)
			if !r.Over() {
				short.steps = max(short.steps, len(d.Plan.Steps)) // its result has those that ended
			}
			s.RecentRuns = append(s.RecentRuns, short)
		}
	}
	return s, nil
}

func recent(r scenario.Run) recentRun {
	short := recentRun{
		RunID: r.RunID, RunNumber: r.RunNumber, Status: r.Status, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt,
		DurationMS: r.DurationMS, passed: r.Passed(), steps: len(r.Steps),
	}
	if s, ok := r.Failed(); ok {
		short.FailedStep, short.Error = &s.ID, s.Error
	}
	return short
}

func printProject(c *hall.CLI, p *project.Project) error {
	all, err := briefs(c, p)
	if err != nil {
		return err
	}
	status := projectStatus{Project: p.Dir(), ScenarioCount: len(all), Scenarios: all}
	for _, s := range all {
		switch {
		case s.LastResult == nil:
			status.NeverRun++
		case *s.LastResult == scenario.Pass:
			status.Passing++
		default:
			status.Failing++
		}
	}
	if c.Scripted() {
		return c.PrintJSON(status)
	}
	if err := printBriefs(c, all); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Stdout, "%s: %d passing, %d failing, %d never run\n", progress.Plural(len(all), "scenario"), status.Passing, status.Failing, status.NeverRun)
	return hall.PrintError(err)
}

// printScenario prints one scenario with its last runs.
func printScenario(c *hall.CLI, p *project.Project, slug string) error {
	s, err := statusOf(c, p, slug)
	if err != nil {
		return err
	}
	if c.Scripted() {
		return c.PrintJSON(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", slug, progress.Line(s.Title))
	for _, step := range s.Steps {
		fmt.Fprintf(&b, "  %s %s\n", step.ID, progress.Line(step.Title))
	}
	n := s.Statistics
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d cancelled; %s on average\n", progress.Plural(n.TotalRuns, "run"), n.PassCount, n.FailCount, n.CancelledCount, tookMS(n.AvgDurationMS))
	if len(s.RecentRuns) > 0 {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "RUN\tRUN ID\tSTATUS\tWHEN\tSTEPS\tTIME\tWHY")
		for _, r := range s.RecentRuns {
			why := ""
			if r.FailedStep != nil {
				why = *r.FailedStep
			}
			if r.Error != nil {
				why += ": " + *r.Error
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", numbered(r.RunNumber), r.RunID, r.Status, progress.Line(r.StartedAt),
				r.passed, r.steps, tookMS(r.DurationMS), text.Truncate(progress.Line(why), maxWhy))
		}
		_ = table.Flush() // into memory
	}
	_, err = fmt.Fprint(c.Stdout, hall.TrimLines(b.String()))
	return hall.PrintError(err)
}
