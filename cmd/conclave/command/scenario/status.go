package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/engine/scenario"
	"conclave/engine/text"
)

// summary is a scenario in a list.
type summary struct {
	Slug       string           `json:"slug"`
	Title      string           `json:"title"`
	Tags       []string         `json:"tags"`
	StepCount  int              `json:"step_count"`
	LastResult *scenario.Status `json:"last_result"`
	LastRun    *string          `json:"last_run"`
	TotalRuns  int              `json:"total_runs"`
	PassRate   int              `json:"pass_rate"` // pass rate of runs with a verdict, 0 to 100
	Running    int              `json:"running"`
}

// projectStatus is the JSON output of status for a project.
type projectStatus struct {
	Project       string    `json:"project"`
	ScenarioCount int       `json:"scenario_count"`
	Passing       int       `json:"passing"` // number of scenarios whose newest run passed
	Failing       int       `json:"failing"`
	NeverRun      int       `json:"never_run"`
	Scenarios     []summary `json:"scenarios"`
}

// scenarioStatus is the JSON output of status for one scenario.
type scenarioStatus struct {
	summary
	Steps      []scenario.StepRef  `json:"steps"` // includes the steps of before and after
	Statistics scenario.Statistics `json:"statistics"`
	RecentRuns []recentRun         `json:"recent_runs"` // newest first, at most maxRecent
}

const maxRecent = 10

func listCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "list DIR",
		Short: "List the scenarios of a directory",
		Long:  "List the scenarios of DIR with their steps, tags and statistics. It reads only DIR, and starts nothing.",
		Example: `  conclave scenario list shop
  conclave scenario list shop --json | jq -r '.[] | select(.tags | index("smoke")) | .slug'`,
		Args: cli.Arguments("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := OpenProject(args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			all, err := listSummaries(c, p, nil)
			switch {
			case err != nil:
				return err
			case c.Scripted():
				return c.PrintJSON(all)
			case len(all) == 0:
				c.Infof("no scenarios in %s", p.Dir())
				return nil
			}
			return printSummaries(c, all)
		},
	}
}

func statusCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "status DIR [SLUG]",
		Short: "Show the results of all scenarios, or of one and its runs",
		Long: `Show the scenarios of DIR with the results of their newest runs, or one of them with
its statistics and its last runs. Results of interrupted runs are first copied from
the store. It never runs a step.`,
		Example: `  conclave scenario status shop
  conclave scenario status shop buy --json | jq '.recent_runs[0].error'`,
		Args: cli.OptionalLast("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showStatus(cmd.Context(), c, args[0], append(args, "")[1])
		},
	}
}

func showStatus(ctx context.Context, c *cli.CLI, dir, slug string) error {
	if err := checkNames(slug, ""); err != nil {
		return err
	}
	p, err := OpenProject(dir)
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
	now, err := catchUpOpen(ctx, c, p, slugs)
	if err != nil {
		c.Infof("results in the store of runs that have not ended here are not shown: %v", err)
	}
	if slug != "" {
		return printScenario(c, p, slug, now)
	}
	return printProject(c, p, now)
}

// catchUpOpen connects, calls catchUp and returns the server's information about the open runs, by ID. It
// connects only if there are open runs, because connecting may start a stack.
func catchUpOpen(ctx context.Context, c *cli.CLI, p *Project, slugs []string) (map[string]*run, error) {
	anyOpen := false
	for _, slug := range slugs {
		open, err := openRuns(p, slug)
		if err != nil {
			return nil, err
		}
		anyOpen = anyOpen || len(open) > 0
	}
	if !anyOpen {
		return nil, nil
	}
	conn, err := connectOpen(ctx, c)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return catchUp(ctx, conn, p, slugs), nil
}

// connectOpen connects to the store of open runs. If the address is known, it also connects to the server.
func connectOpen(ctx context.Context, c *cli.CLI) (*cli.Connection, error) {
	t, err := c.Target()
	if err == nil && t.Cluster == (c.Bucket != "") {
		if conn, err := c.Connect(ctx, t, slog.New(slog.DiscardHandler)); err == nil {
			return conn, nil
		}
	}
	return c.ConnectStore(ctx)
}

// statusOf returns the status of a scenario from the results in its folder. For a run
// without a result it uses the server's information.
func statusOf(c *cli.CLI, p *Project, slug string, now map[string]*run) (scenarioStatus, error) {
	d, err := p.Describe(slug)
	if err != nil {
		return scenarioStatus{}, err
	}
	all, problems, err := p.Runs(slug)
	if err != nil {
		return scenarioStatus{}, err
	}
	for _, problem := range problems {
		c.Warnf("left out: %s", problem)
	}
	for i, r := range all {
		if open := now[slug+"/"+r.RunID]; open != nil && open.end != nil { // its result still says running
			all[i].Status = scenario.Fail
		}
	}
	s := scenarioStatus{Steps: d.Plan.All(), Statistics: scenario.Fold(all), RecentRuns: []recentRun{}}
	s.summary = summary{
		Slug: slug, Title: d.Plan.Title, Tags: append([]string{}, d.Tags...), StepCount: len(d.Plan.All()),
		LastResult: s.Statistics.LastResult, LastRun: s.Statistics.LastRun, TotalRuns: s.Statistics.TotalRuns, PassRate: s.Statistics.PassRate(),
	}
	for i, r := range all {
		if !r.Over() {
			s.Running++
		}
		if i < maxRecent {
			run := summarizeRun(r, d.Plan)
			if open := now[slug+"/"+r.RunID]; open != nil {
				run.addServerState(open)
			}
			s.RecentRuns = append(s.RecentRuns, run)
		}
	}
	return s, nil
}

// listSummaries returns the scenarios of a project, with statuses like statusOf. It reports and
// skips unreadable ones.
func listSummaries(c *cli.CLI, p *Project, now map[string]*run) ([]summary, error) {
	slugs, err := p.Slugs()
	if err != nil {
		return nil, err
	}
	all := []summary{}
	for _, slug := range slugs {
		status, err := statusOf(c, p, slug, now)
		if err != nil {
			c.Warnf("%v", err)
			continue
		}
		all = append(all, status.summary)
	}
	return all, nil
}

func printSummaries(c *cli.CLI, all []summary) error {
	var b strings.Builder
	fmt.Fprintln(&b, "SCENARIO\tLAST\tWHEN\tRUNS\tPASSED\tSTEPS\tTITLE\tTAGS")
	for _, s := range all {
		last, when := "never run", ""
		if s.LastResult != nil {
			last, when = string(*s.LastResult), cli.Line(*s.LastRun)
		}
		if s.Running > 0 {
			last = string(scenario.Running)
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%d\t%d %%\t%d\t%s\t%s\n", s.Slug, last, when, s.TotalRuns, s.PassRate, s.StepCount,
			text.Truncate(cli.Line(s.Title), cli.MaxEcho), cli.Line(strings.Join(s.Tags, " ")))
	}
	return c.Print(cli.Table(b.String()))
}

func printProject(c *cli.CLI, p *Project, now map[string]*run) error {
	all, err := listSummaries(c, p, now)
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
	if err := printSummaries(c, all); err != nil {
		return err
	}
	return c.Print(fmt.Sprintf("%s: %d passing, %d failing, %d never run\n", cli.Plural(len(all), "scenario"), status.Passing, status.Failing, status.NeverRun))
}

func printScenario(c *cli.CLI, p *Project, slug string, now map[string]*run) error {
	s, err := statusOf(c, p, slug, now)
	if err != nil {
		return err
	}
	if c.Scripted() {
		return c.PrintJSON(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", slug, cli.Line(s.Title))
	for _, step := range s.Steps {
		fmt.Fprintf(&b, "  %s %s\n", step.ID, cli.Line(step.Title))
	}
	n := s.Statistics
	flaky := ""
	if n.FlakyCount > 0 {
		flaky = fmt.Sprintf(" (%d flaky)", n.FlakyCount)
	}
	fmt.Fprintf(&b, "%s: %d passed%s, %d failed, %d cancelled; %s on average\n", cli.Plural(n.TotalRuns, "run"),
		n.PassCount, flaky, n.FailCount, n.CancelledCount, formatDuration(n.AvgDurationMS))
	if len(s.RecentRuns) > 0 {
		fmt.Fprintln(&b, "RUN\tRUN ID\tSTATUS\tWHEN\tSTEPS\tTIME\tWHY")
		for _, r := range s.RecentRuns {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", formatNumber(r.RunNumber), r.RunID, r.text, cli.Line(r.StartedAt),
				r.passed, r.steps, formatDuration(r.DurationMS), text.Truncate(cli.Line(r.reasonText(time.Now())), maxReason))
		}
	}
	return c.Print(cli.Table(b.String()))
}
