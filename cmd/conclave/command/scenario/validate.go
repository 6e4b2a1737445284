package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/scenario"
	"conclave/engine/text"
	scenarioflow "conclave/workflows/scenario"
)

func validateCommand(c *cli.CLI) *cobra.Command {
	var in inputs
	cmd := &cobra.Command{
		Use:   "validate DIR [SLUG]",
		Short: "Check scenarios, prd.md and the tester without running anything",
		Long: `Check the scenarios of DIR, or one of them: meta.yaml, the files of the steps and
their placeholders, prd.md, and the configuration of the tester with its MCP
programs. It asks no model, starts nothing and changes nothing. Keys and programs that
this machine lacks are warnings.`,
		Example: `  conclave scenario validate shop
  conclave scenario validate shop buy --var TENANT=acme --json`,
		Args: cli.OptionalLast("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validateScenarios(cmd.Context(), c, in, args[0], append(args, "")[1])
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	in.addTo(set)
	return cmd
}

// validated is the JSON output of validate.
type validated struct {
	Valid     bool         `json:"valid"`
	Scenarios []checkedOne `json:"scenarios"`
	Tester    *string      `json:"tester_problem"` // null for none
}

// checkedOne is the result of checking one scenario.
type checkedOne struct {
	Slug    string  `json:"slug"`
	Steps   int     `json:"steps"`
	Problem *string `json:"problem"` // null for none
}

// validateScenarios goes on after a faulty scenario, so that one run shows all problems.
func validateScenarios(ctx context.Context, c *cli.CLI, in inputs, dir, slug string) error {
	if err := checkNames(slug, ""); err != nil {
		return err
	}
	values, err := in.checkedValues()
	if err != nil {
		return err
	}
	p, err := OpenProject(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	slugs := []string{slug}
	if slug == "" {
		if slugs, err = selectSlugs(p, nil); err != nil {
			return err
		}
	}
	result := validated{Valid: true, Scenarios: []checkedOne{}}
	var problems []error
	note := func(err error) *string {
		if err == nil {
			return nil
		}
		result.Valid, problems = false, append(problems, err)
		return new(err.Error())
	}
	unread := ""
	for _, slug := range slugs {
		d, err := p.Load(slug, values)
		if prd, err := scenario.ParseProject(d.PRD); err == nil {
			unread = prd.Unread // all scenarios have the same prd.md
		}
		result.Scenarios = append(result.Scenarios, checkedOne{Slug: slug, Steps: len(d.Plan.All()), Problem: note(err)})
	}
	result.Tester = note(checkTester(ctx, c, dir))
	if unread != "" {
		c.Warnf("%s", unread)
	}
	if c.Scripted() {
		if err := c.PrintJSON(result); err != nil || result.Valid {
			return err
		}
		return cli.Exit(cli.ExitUsage)
	}
	for _, name := range values.Vars.Unused() {
		c.Warnf("--var %s: no file of the scenarios has ${%s}", name, name)
	}
	if result.Valid {
		return c.Print(validText(result.Scenarios))
	}
	return cli.Exitf(cli.ExitUsage, "%w", errors.Join(problems...))
}

// checkTester returns an error if the tester's configuration is invalid. For missing keys
// and programs it only warns, because the run may execute on another machine.
func checkTester(ctx context.Context, c *cli.CLI, dir string) error {
	t, w, err := teams.Open(c)
	if err != nil {
		return err
	}
	tester, source, err := readTester(c, t, false, dir)
	if err != nil || t.Cluster {
		return err
	}
	tester = w.Resolve(tester)
	for _, err := range []error{w.Startable(tester), w.Serves(ctx, tester)} {
		if err != nil {
			c.Warnf("%s cannot run here: %v", source, err)
		}
	}
	return nil
}

func validText(all []checkedOne) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s: valid, %s\n", s.Slug, cli.Plural(s.Steps, "step"))
	}
	return b.String()
}

// flags are the flags of run besides the common ones.
type flags struct {
	inputs
	all, offline, failFast bool
	tags, only             []string
	retry, junit, html     string
	id                     string // ID of the runs; empty for a new ID each
	parallel               int
	stepTimeout            time.Duration // 0 for that of the run to retry
}

// inputs has the flags for the values of placeholders.
type inputs struct {
	baseURL string
	vars    []string
}

func (i *inputs) addTo(set *pflag.FlagSet) {
	set.StringVar(&i.baseURL, "base-url", "", "test the application at `URL` instead of that of prd.md")
	set.StringArrayVar(&i.vars, "var", nil, "the value of a placeholder ${NAME} in steps and prd.md, `NAME=VALUE`; may be repeated")
}

func (i *inputs) checkedValues() (v Values, err error) {
	if i.baseURL != "" {
		u, err := url.Parse(i.baseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return v, fmt.Errorf("--base-url %.200q is not an address; give one such as https://staging.example.org", i.baseURL)
		}
	}
	v.BaseURL = strings.TrimRight(i.baseURL, "/")
	if v.Vars, err = scenario.ParseVars(i.vars); err != nil {
		return v, fmt.Errorf("--var: %w", err)
	}
	return v, nil
}

func (f flags) selectsSeveral() bool { return f.all || len(f.tags) > 0 }

// checkValues refuses flags that contradict each other, and reports that could not be written at the end.
func (f flags) checkValues(slug string) error {
	switch {
	case f.selectsSeveral() && slug != "":
		return errors.New("SLUG and --all or --tag exclude each other: name one scenario, or select several")
	case !f.selectsSeveral() && slug == "":
		return errors.New("scenario run needs SLUG, --all or --tag; see `conclave scenario run --help`")
	case f.selectsSeveral() && f.retry != "":
		return errors.New("--retry continues a run of one scenario: name its SLUG instead of --all or --tag")
	case f.selectsSeveral() && len(f.only) > 0:
		return errors.New("--only names a step of one scenario: name its SLUG instead of --all or --tag")
	case f.retry != "" && (len(f.only) > 0 || f.baseURL != "" || len(f.vars) > 0):
		return errors.New("--retry keeps the definition of the run: leave --only, --base-url and --var out, or start a new run")
	case f.id != "" && f.retry != "":
		return errors.New("--session-id names a new run, and --retry one that exists; leave one out")
	case f.parallel < 1:
		return fmt.Errorf("--parallel is %d; it takes at least 1", f.parallel)
	case f.retry != "" && f.stepTimeout == 0:
	case f.stepTimeout < time.Second || f.stepTimeout > scenarioflow.MaxStepSeconds*time.Second:
		return fmt.Errorf("--step-timeout is %s; it takes 1s to %s", f.stepTimeout, scenarioflow.MaxStepSeconds*time.Second)
	}
	for _, report := range []struct{ flag, file string }{{"--junit", f.junit}, {"--html", f.html}} {
		if info, err := os.Stat(report.file); report.file != "" && err == nil && info.IsDir() {
			return fmt.Errorf("%s %s is a directory; name a file", report.flag, report.file)
		}
		if _, err := os.Stat(filepath.Dir(report.file)); report.file != "" && err != nil {
			return fmt.Errorf("%s %s: %w; make the directory first", report.flag, report.file, err)
		}
	}
	if err := checkNames(slug, f.id); err != nil {
		return err
	}
	return checkNames(slug, f.retry)
}

// selectSlugs returns the scenarios with at least one of the tags, or all scenarios if
// there are no tags.
func selectSlugs(from *Project, tags []string) ([]string, error) {
	all, err := from.Slugs()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no scenario in %s; `conclave scenario create` makes one", from.Dir())
	}
	if len(tags) == 0 {
		return all, nil
	}
	var selected, known []string
	for _, slug := range all {
		d, err := from.Describe(slug)
		if err != nil {
			return nil, err
		}
		known = append(known, d.Tags...)
		if slices.ContainsFunc(d.Tags, func(tag string) bool { return slices.Contains(tags, tag) }) {
			selected = append(selected, slug)
		}
	}
	if len(selected) == 0 {
		slices.Sort(known)
		return nil, fmt.Errorf("no scenario in %s has the tag %s; the tags are: %s", from.Dir(), strings.Join(tags, " or "),
			cmp.Or(strings.Join(slices.Compact(known), ", "), "none"))
	}
	return selected, nil
}

// Command returns `conclave scenario`.
func Command(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scenario",
		Short: "Test an application by user journeys: create, validate, run, status, …",
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
		RunE: cli.Group,
	}
	cmd.AddCommand(
		createCommand(c), runCommand(c), validateCommand(c), statusCommand(c), listCommand(c),
		watchCommand(c), aliasCommand("pause", "Suspend a run until it is resumed"),
		aliasCommand("resume", "Continue a paused run"), aliasCommand("cancel", "Cancel a run"),
	)
	for _, sub := range cmd.Commands() {
		setCompletion(sub)
	}
	return cmd
}

// checkNames refuses names that could lead out of their folder. Empty names are accepted.
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

func watchCommand(c *cli.CLI) *cobra.Command {
	cmd := oneRunCommand("watch", "Follow a run and run its steps", `Follow a run to its end; results and evidence appear in DIR after every step.
Without an address, watch joins the local stack as a worker, so that an
interrupted run continues.`, func(cmd *cobra.Command, dir string, from *Project, r *run) error {
		t, err := c.Target()
		if err != nil {
			return err
		}
		return c.With(cmd.Context(), t, func(conn *cli.Connection) error {
			stop, err := teams.RunWorker(conn, nil, r.asRun().Workflow)
			if err != nil {
				return err
			}
			defer stop()
			defer web.Offer(conn, Kind())()
			o := &order{dir: dir, project: from, runs: []*run{r}}
			printPage(conn, o.runs)
			r.problem = o.followRun(cmd.Context(), conn, r, newBoard(c))
			return reportRuns(cmd.Context(), c, o)
		})
	})
	teams.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

// aliasCommand returns a subcommand that passes SLUG/RUN_ID to the command of the same name.
func aliasCommand(name, short string) *cobra.Command {
	return oneRunCommand(name, short, short+", as `conclave "+name+" SLUG/RUN_ID` does.", func(cmd *cobra.Command, _ string, _ *Project, r *run) error {
		alias, _, err := cmd.Root().Find([]string{name})
		if err != nil {
			return err
		}
		return alias.RunE(cmd, []string{r.asRun().Name()})
	})
}

// oneRunCommand returns a subcommand for one run, by default the newest open one.
func oneRunCommand(name, short, long string, do func(cmd *cobra.Command, dir string, from *Project, r *run) error) *cobra.Command {
	return &cobra.Command{
		Use:     name + " DIR SLUG [RUN_ID]",
		Short:   short,
		Long:    long + "\n\nWithout RUN_ID it is the newest run that has not ended.",
		Example: "  conclave scenario " + name + " shop buy 20261121-153012-k3f9",
		Args:    cli.OptionalLast("DIR", "SLUG", "RUN_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			slug, id := args[1], append(args, "")[2]
			if err := checkNames(slug, id); err != nil {
				return err
			}
			from, err := OpenProject(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			r, err := findRun(from, slug, id)
			if err != nil {
				return err
			}
			return do(cmd, args[0], from, r)
		},
	}
}

// findRun returns a run from the folder of its scenario. Without an ID it returns the newest open
// one.
func findRun(from *Project, slug, id string) (*run, error) {
	d, err := from.Describe(slug)
	if err != nil {
		return nil, err
	}
	r := &run{slug: slug, id: id, title: d.Plan.Title}
	r.input.Plan = d.Plan
	if id != "" {
		_, err := from.Run(slug, id)
		return r, err
	}
	open, err := openRuns(from, slug)
	if len(open) > 0 {
		r.id = open[0].id
		return r, nil
	}
	if err == nil {
		err = fmt.Errorf("no run of scenario %s is open; `conclave scenario status %s %s` lists the runs", slug, text.ShellQuote(from.Dir()), slug)
	}
	return nil, err
}
