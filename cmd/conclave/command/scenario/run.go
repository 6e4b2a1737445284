package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/sync/errgroup"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

func runCommand(c *cli.CLI) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "run DIR SLUG | DIR --all | DIR --tag TAG [flags]",
		Short: "Run a scenario, or all of them",
		Long: `Run the scenario SLUG of DIR, or all scenarios of DIR, several at once. Each step
gets an agent of its own, with the tools of the team file, which names exactly one
agent (--config, else DIR/conclave.yaml, else ./conclave.yaml). A run uses the
definition as it is when the run begins.

Results and evidence appear in DIR/scenarios/SLUG/runs/RUN_ID after every step. The
command prints the address of a page that follows the run, and serves it until it ends.
Ctrl-C stops watching: the run is kept, and continues whenever a worker runs.
--retry continues a run that did not pass from the step that failed, with the
definition that it began with. The failure and its evidence are kept; a step that
passes then is flaky.

In the files of steps and in prd.md, ${NAME} stands for the value that --var gives,
and ${BASE_URL} for the address of --base-url, else of prd.md. ${NAME:-text} has a
default, and $${NAME} is plain text.

Exit codes: 0 all passed, 1 wrong usage or configuration and nothing started,
2 failed or cancelled, 4 interrupted.`,
		Example: `  conclave scenario run shop buy --config tester.yaml
  conclave scenario run shop --all --junit report.xml --html report.html
  conclave scenario run shop --tag smoke --fail-fast --base-url https://staging.example.org
  conclave scenario run shop buy --only 02 --var TENANT=acme
  conclave scenario run shop buy --session-id release-42
  conclave scenario run shop buy --retry 20261121-153012-k3f9
  conclave scenario run shop buy --automation | tail -n 1 | jq -r .status`,
		Args: cli.OptionalLast("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.retry != "" && !cmd.Flags().Changed("step-timeout") {
				f.stepTimeout = 0
			}
			return runScenarios(cmd.Context(), c, f, args[0], append(args, "")[1])
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.BoolVar(&f.all, "all", false, "run all scenarios of DIR")
	set.StringArrayVar(&f.tags, "tag", nil, "run the scenarios with this `TAG`; may be repeated")
	set.StringArrayVar(&f.only, "only", nil, "run only the step with this `ID`, and those of before and after; may be repeated")
	set.BoolVar(&f.failFast, "fail-fast", false, "start no further scenario after one that did not pass")
	set.IntVar(&f.parallel, "parallel", 4, "how many scenarios run at once, with --all or --tag")
	f.addTo(set)
	set.StringVar(&f.id, "session-id", "", "`ID` of the run, with --all of the run of each scenario (default a new one)")
	set.StringVar(&f.retry, "retry", "", "continue the run `RUN_ID` from the step that failed")
	set.StringVar(&f.junit, "junit", "", "write a JUnit report for CI systems to `FILE`")
	set.StringVar(&f.html, "html", "", "write a page with verdicts and screenshots, and an index of all runs of DIR, to `FILE`")
	set.DurationVar(&f.stepTimeout, "step-timeout", scenarioflow.DefaultStepSeconds*time.Second, "time that a step may take; with --retry the default is that of the run")
	set.BoolVar(&f.offline, "offline", false, "replace the model by the built-in deterministic one: no key, no network, nothing is tested")
	teams.WorkerConfigFlag(c, set)
	return cmd
}

// runScenarios checks the input of all runs before it connects, because connecting may start a stack.
func runScenarios(ctx context.Context, c *cli.CLI, f flags, dir, slug string) error {
	if err := f.checkValues(slug); err != nil {
		return err
	}
	from, err := OpenProject(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	o := &order{flags: f, dir: dir, project: from}
	if o.values, err = f.checkedValues(); err != nil {
		return err
	}
	if err := o.loadRuns(slug); err != nil {
		return err
	}
	t, w, err := teams.Open(c)
	if err != nil {
		return err
	}
	o.worker = w
	if o.tester, o.source, err = loadTester(c, t, o.worker, f.offline, dir); err != nil {
		return err
	}
	if err := o.worker.Serves(ctx, o.tester); err != nil {
		return err
	}
	warnIgnored(c, o)
	warnPRD(c, o)
	for _, name := range o.values.Vars.Unused() {
		c.Warnf("--var %s: no file of the scenario has ${%s}", name, name)
	}
	return c.With(ctx, t, func(conn *cli.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		defer web.Offer(conn, Kind())()
		return executeRuns(ctx, conn, o)
	})
}

func executeRuns(ctx context.Context, conn *cli.Connection, o *order) error {
	catchUp(ctx, conn, o.project, o.slugs)
	if r := o.runs[0]; r.input.Resume {
		if last, err := o.project.Run(r.slug, r.id); err == nil && !last.Over() && isOpen(ctx, conn, r) {
			return cli.Exitf(cli.ExitUsage, "retry %s: it is still running; `%s` follows it", r, conn.CommandLine("scenario watch", o.dir, r.slug, r.id))
		}
	}
	if err := o.placeTester(conn); err != nil {
		return err
	}
	introduceRuns(conn, o)
	stop, err := teams.RunWorker(conn, o.worker, o.runs[0].asRun().Workflow)
	if err != nil {
		return err
	}
	defer stop()
	if conn.Cluster && conn.Store == nil {
		conn.Infof("evidence stays in the cluster's bucket; name it with --bucket (and --prefix) to have it in %s", o.dir)
		warnExposed(conn.CLI, o)
	}
	o.runConcurrently(ctx, conn, newBoard(conn.CLI))
	return reportRuns(ctx, conn.CLI, o)
}

// runConcurrently starts and follows the runs, several at a time. Each run has its own problem.
func (o *order) runConcurrently(ctx context.Context, conn *cli.Connection, b *board) {
	var failed atomic.Pointer[run]
	var group errgroup.Group
	group.SetLimit(o.flags.parallel)
	for _, r := range o.runs {
		group.Go(func() error {
			if r.problem = ctx.Err(); r.problem != nil {
				return nil
			}
			if first := failed.Load(); first != nil && o.flags.failFast {
				r.problem, r.absent = fmt.Errorf("scenario %s was not started because of --fail-fast: %s did not pass", r.slug, first.slug), true
				return nil
			}
			defer func() {
				if r.problem != nil || r.result.Status != scenario.Pass {
					failed.Store(r)
				}
			}()
			if err := o.startRun(ctx, conn, r); err != nil {
				r.problem, r.absent = cli.Exitf(cli.ExitUsage, "%w", err), true
				return nil
			}
			r.problem = o.followRun(ctx, conn, r, b)
			return nil
		})
	}
	_ = group.Wait()
}

// isOpen reports whether a run's workflow is open, because the result of a terminated
// run still says running. If the server does not respond, the run counts as open.
func isOpen(ctx context.Context, conn *cli.Connection, r *run) bool {
	now, err := runs.Describe(ctx, conn, r.asRun())
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return false
	}
	return err != nil || now.Running()
}

// placeTester adds the tester to the inputs, or registers it for local workers.
func (o *order) placeTester(conn *cli.Connection) error {
	for _, r := range o.runs {
		var err error
		if conn.Cluster {
			r.input.Config, err = o.tester.Canonical()
		} else {
			r.input.Team, err = teams.Registry(conn.Target).Register(o.tester)
		}
		if err != nil {
			return fmt.Errorf("encode the team of %s: %w", o.source, err)
		}
	}
	return nil
}

func introduceRuns(conn *cli.Connection, o *order) {
	if o.flags.offline {
		conn.Infof("%s", offlineNote)
	}
	if conn.Scripted() {
		return
	}
	conn.Infof("%s %s, agent from %s: %s", cli.Plural(len(o.runs), "scenario"), conn.Target, o.source, teams.Describe(o.tester))
	printPage(conn, o.runs)
	if !conn.Cluster {
		conn.Infof("in Temporal: %s", conn.Stack.UIAddress)
	}
}

// printPage prints the address of a run's page, or of the list of runs if there are several. It
// does nothing if no pages are served.
func printPage(conn *cli.Connection, all []*run) {
	switch {
	case conn.Pages == "":
	case len(all) == 1:
		conn.Infof("its page: %s%s", conn.Pages, record.Scenarios.At(nil, all[0].slug+"/"+all[0].id).Page())
	default:
		conn.Infof("their pages: %s/", conn.Pages)
	}
}

// startRun starts a run. It creates the folder first, so that a crash does not lose the run.
func (o *order) startRun(ctx context.Context, conn *cli.Connection, r *run) error {
	r.input.RunID = r.id
	r.input.StepTimeoutSeconds = int(o.flags.stepTimeout / time.Second)
	if !r.input.Resume {
		if _, err := runs.Describe(ctx, conn, r.asRun()); o.flags.id != "" && err == nil {
			return fmt.Errorf("start %s: the ID is in use %s; choose another --session-id", r, conn.Target)
		}
		document, err := o.project.Begin(r.slug, r.id, time.Now())
		if err = errors.Join(err, r.setResult(document)); err != nil {
			return err
		}
	}
	if err := r.storePRD(ctx, conn); err != nil {
		return errors.Join(err, r.discardFiles(ctx, conn, o.project))
	}
	started := runs.Order{Kind: Kind(), ID: r.id, Slug: r.slug, Query: r.title, Input: r.input, Offline: o.flags.offline}
	if r.input.Resume {
		started.Again = r.asRun().Workflow
	}
	switch err := runs.Execute(ctx, conn, started); {
	case runs.IsTaken(err):
		return fmt.Errorf("%s is running already; `%s` follows it", r, conn.CommandLine("scenario watch", o.dir, r.slug, r.id))
	case err != nil:
		return fmt.Errorf("start scenario %s %s: %w", r.slug, conn.Target, errors.Join(err, r.discardFiles(ctx, conn, o.project)))
	}
	return nil
}

// storePRD moves prd.md from the input, which is part of the history, to the store.
func (r *run) storePRD(ctx context.Context, conn *cli.Connection) error {
	if conn.Store == nil || r.input.PRD == "" {
		return nil
	}
	key := acts.PRDKey(r.slug, r.id)
	ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
	defer cancel()
	if err := conn.Store.Put(ctx, key, strings.NewReader(r.input.PRD)); err != nil {
		return fmt.Errorf("store prd.md for %s in %s: %w", r, conn.Store.URL(key), err)
	}
	r.input.PRD, r.input.PRDHash = "", acts.PRDHash(r.input.PRD)
	return nil
}

// discardFiles removes the files of a run that did not start. After an interrupt it keeps them, because
// the run may have started.
func (r *run) discardFiles(ctx context.Context, conn *cli.Connection, from *Project) error {
	if ctx.Err() != nil || r.input.Resume {
		return nil
	}
	var err error
	if r.input.PRDHash != "" {
		err = conn.Store.Delete(ctx, acts.PRDKey(r.slug, r.id))
	}
	r.document, r.result, r.absent = nil, scenario.Run{}, true
	return errors.Join(err, from.Forget(r.slug, r.id))
}

// order is the validated input of one command's runs.
type order struct {
	flags   flags
	dir     string // directory as given on the command line
	project *Project
	values  Values
	tester  config.Team
	source  string // source of the tester
	worker  *teams.Worker
	slugs   []string
	runs    []*run
}

// run is one run of a scenario.
type run struct {
	slug, id, title string
	input           scenarioflow.Input

	copy     *RunCopy     // nil on a cluster without a bucket
	document []byte       // the newest result.json; nil before the first
	result   scenario.Run // document as parsed
	problem  error        // why the run was not started, or not followed to its end
	absent   bool         // it was not started and has no files

	known runs.Run        // the words of the server about an open run
	end   *artifact.Error // how Temporal cut it off; nil if it did not
}

// String names the run in messages.
func (r *run) String() string { return "run " + r.id + " of scenario " + r.slug }

// loadRuns reads the definitions of all runs before any is started, so that an invalid one prevents them all.
func (o *order) loadRuns(slug string) error {
	o.slugs = []string{slug}
	if o.flags.selectsSeveral() {
		var err error
		if o.slugs, err = selectSlugs(o.project, o.flags.tags); err != nil {
			return err
		}
	}
	var problems []error
	for _, slug := range o.slugs {
		load := o.newRun
		if o.flags.retry != "" {
			load = o.retriedRun
		}
		r, err := load(slug)
		problems = append(problems, err)
		o.runs = append(o.runs, r)
	}
	return errors.Join(problems...)
}

func (o *order) retriedRun(slug string) (*run, error) {
	r, err := findRun(o.project, slug, o.flags.retry)
	if err != nil {
		return nil, err
	}
	r.input = scenarioflow.Input{Resume: true, Plan: scenario.Plan{Slug: slug}}
	if last, err := o.project.Run(slug, r.id); err != nil || last.Status == scenario.Pass {
		return nil, cmp.Or(err, fmt.Errorf("retry %s: it passed; start a new one without --retry", r))
	}
	return r, nil
}

func (o *order) newRun(slug string) (*run, error) {
	d, err := o.project.Load(slug, o.values)
	if err != nil {
		return nil, err
	}
	d.Plan.Only = o.flags.only
	if err := d.Plan.Check(); err != nil {
		return nil, err
	}
	size := len(d.PRD)
	for _, content := range d.Files {
		size += len(content)
	}
	if size > scenarioflow.MaxDefinition {
		return nil, fmt.Errorf("the steps of scenario %s and prd.md have %d bytes together, at most %d are accepted; put large material where the agents can read it", slug, size, scenarioflow.MaxDefinition)
	}
	earlier, _, err := o.project.Runs(slug)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(earlier, func(e scenario.Run) bool { return e.RunID == o.flags.id }) {
		return nil, fmt.Errorf("scenario %s has a run %s already; choose another --session-id, or continue that run with --retry", slug, o.flags.id)
	}
	r := &run{slug: slug, id: cmp.Or(o.flags.id, cli.NewRunID(time.Now())), title: d.Plan.Title, input: scenarioflow.Input{
		Plan: d.Plan, Files: d.Files, PRD: d.PRD, Project: filepath.Base(o.project.Dir()),
	}}
	for _, e := range earlier {
		r.input.After = max(r.input.After, e.RunNumber)
	}
	return r, nil
}
