package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"

	acts "conclave/activities/scenario"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/scenario"
	scenarioflow "conclave/workflows/scenario"
)

func runCommand(c *hall.CLI) *cobra.Command {
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
		Args: hall.OptionalLast("DIR", "SLUG"),
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
	f.add(set)
	set.StringVar(&f.id, "session-id", "", "`ID` of the run, with --all of the run of each scenario (default a new one)")
	set.StringVar(&f.retry, "retry", "", "continue the run `RUN_ID` from the step that failed")
	set.StringVar(&f.junit, "junit", "", "write a JUnit report for CI systems to `FILE`")
	set.StringVar(&f.html, "html", "", "write a page with verdicts and screenshots, and an index of all runs of DIR, to `FILE`")
	set.DurationVar(&f.stepTimeout, "step-timeout", scenarioflow.DefaultStepSeconds*time.Second, "time that a step may take; with --retry the default is that of the run")
	set.BoolVar(&f.offline, "offline", false, "replace the model by the built-in deterministic one: no key, no network, nothing is tested")
	team.WorkerConfigFlag(c, set)
	return cmd
}

func runScenarios(ctx context.Context, c *hall.CLI, f flags, dir, slug string) error {
	if err := f.check(slug); err != nil {
		return err
	}
	t, err := c.Target()
	if err != nil {
		return err
	}
	from, err := project.Open(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	o := &order{flags: f, dir: dir, project: from}
	if o.values, err = f.values(); err != nil {
		return err
	}
	if err := o.load(slug); err != nil {
		return err
	}
	if o.worker, err = team.OpenWorker(c, t); err != nil {
		return err
	}
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
	return c.With(ctx, t, func(conn *hall.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		defer live.Offer(conn, Kind())()
		return execute(ctx, conn, o)
	})
}

// execute starts the runs, follows them and reports their results.
func execute(ctx context.Context, conn *hall.Connection, o *order) error {
	catchUp(ctx, conn, o.project, o.slugs)
	if r := o.runs[0]; r.input.Resume {
		if last, err := o.project.Run(r.slug, r.id); err == nil && !last.Over() && isOpen(ctx, conn, r) {
			return hall.Exitf(hall.ExitUsage, "retry %s: it is still running; `%s` follows it", r, commandLine(conn.CLI, "watch", o.dir, r))
		}
	}
	if err := o.placeTester(conn); err != nil {
		return err
	}
	introduce(conn, o)
	stop, err := team.RunWorker(conn, o.worker, o.runs[0].workflow())
	if err != nil {
		return err
	}
	defer stop()
	b := newBoard(conn.CLI, o)
	if conn.Cluster {
		b.warned = conn.WarnIdle(ctx, conn.Queue)
		if conn.Store == nil {
			conn.Infof("evidence stays in the cluster's bucket; name it with --bucket (and --prefix) to have it in %s", o.dir)
			warnExposed(conn.CLI, o)
		}
	}
	o.runAll(ctx, conn, b)
	return report(ctx, conn.CLI, o)
}

// runAll starts and follows the runs, several at a time. Each run has its own problem.
func (o *order) runAll(ctx context.Context, conn *hall.Connection, b *board) {
	var failed atomic.Pointer[run]
	var group errgroup.Group
	group.SetLimit(o.flags.parallel)
	for _, r := range o.runs {
		group.Go(func() error {
			if r.problem = ctx.Err(); r.problem != nil {
				return nil
			}
			if first := failed.Load(); first != nil && o.flags.failFast {
				r.problem, r.id = fmt.Errorf("scenario %s was not started because of --fail-fast: %s did not pass", r.slug, first.slug), ""
				return nil
			}
			defer func() {
				if r.problem != nil || r.result.Status != scenario.Pass {
					failed.Store(r)
				}
			}()
			if err := o.start(ctx, conn, r); err != nil {
				r.problem, r.id = hall.Exitf(hall.ExitUsage, "%w", err), "" // nothing was started
				return nil
			}
			r.problem = follow(ctx, conn, o, r, b)
			return nil
		})
	}
	_ = group.Wait()
}

// isOpen reports whether a run's workflow is open, because the result of a terminated
// run still says running. If the server does not respond, the run counts as open.
func isOpen(ctx context.Context, conn *hall.Connection, r *run) bool {
	info, err := describe(ctx, conn, r)
	if err != nil {
		_, missing := errors.AsType[*serviceerror.NotFound](err)
		return !missing
	}
	return info.GetCloseTime() == nil
}

// isKnown reports whether the server has an open or closed workflow for a run.
func isKnown(ctx context.Context, conn *hall.Connection, r *run) bool {
	_, err := describe(ctx, conn, r)
	return err == nil
}

func describe(ctx context.Context, conn *hall.Connection, r *run) (*workflowpb.WorkflowExecutionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	reply, err := conn.Client.DescribeWorkflowExecution(ctx, r.workflow(), "")
	return reply.GetWorkflowExecutionInfo(), err
}

// placeTester adds the tester to the inputs, or registers it for local workers.
func (o *order) placeTester(conn *hall.Connection) error {
	for _, r := range o.runs {
		var err error
		if conn.Cluster {
			r.input.Config, err = o.tester.Canonical()
		} else {
			r.input.Team, err = team.Registry(conn.Target).Register(o.tester)
		}
		if err != nil {
			return fmt.Errorf("encode the team of %s: %w", o.source, err)
		}
	}
	return nil
}

func introduce(conn *hall.Connection, o *order) {
	if o.flags.offline {
		conn.Infof("offline: the built-in deterministic model plays the agent; no language model is asked and nothing is tested")
	}
	if conn.Scripted() {
		return
	}
	conn.Infof("%s %s, agent from %s: %s", progress.Plural(len(o.runs), "scenario"), conn.Target, o.source, team.Describe(o.tester))
	printPage(conn, o.runs)
	if !conn.Cluster {
		conn.Infof("in Temporal: %s", conn.Stack.UIAddress)
	}
}

// printPage prints the address of a run's page, or of the list of runs if there are several. It
// does nothing if no pages are served.
func printPage(conn *hall.Connection, all []*run) {
	switch {
	case conn.Pages == "":
	case len(all) == 1:
		conn.Infof("its page: %s%s%s", conn.Pages, Kind().Page, all[0].id)
	default:
		conn.Infof("their pages: %s/", conn.Pages)
	}
}

// start starts a run. It creates the folder first, so that a crash does not lose the run.
func (o *order) start(ctx context.Context, conn *hall.Connection, r *run) error {
	r.input.RunID = r.id
	r.input.StepTimeoutSeconds = int(o.flags.stepTimeout / time.Second)
	if !r.input.Resume {
		if o.flags.id != "" && isKnown(ctx, conn, r) {
			return fmt.Errorf("start %s: the ID is in use %s; choose another --session-id", r, conn.Target)
		}
		document, err := o.project.Begin(r.slug, r.id, time.Now())
		if err = errors.Join(err, r.setResult(document)); err != nil {
			return err
		}
	}
	if err := r.storePRD(ctx, conn); err != nil {
		return errors.Join(err, r.discard(ctx, conn, o.project))
	}
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	memo := map[string]any{scenarioflow.MemoScenario: r.slug, scenarioflow.MemoRun: r.id}
	options := runs.Options(conn, r.workflow(), r.title, memo, o.flags.offline)
	_, err := conn.Client.ExecuteWorkflow(starting, options, scenarioflow.Type, r.input)
	if err == nil {
		return nil
	}
	if _, open := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); open {
		return fmt.Errorf("%s is running already; `%s` follows it", r, commandLine(conn.CLI, "watch", o.dir, r))
	}
	return fmt.Errorf("start scenario %s %s: %w", r.slug, conn.Target, errors.Join(err, r.discard(ctx, conn, o.project)))
}

// storePRD moves prd.md from the input, which is part of the history, to the store.
func (r *run) storePRD(ctx context.Context, conn *hall.Connection) error {
	if conn.Store == nil || r.input.PRD == "" {
		return nil
	}
	key := acts.PRDKey(r.slug, r.id)
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	if err := conn.Store.Put(ctx, key, strings.NewReader(r.input.PRD)); err != nil {
		return fmt.Errorf("store prd.md for %s in %s: %w", r, conn.Store.URL(key), err)
	}
	r.input.PRD, r.input.PRDHash = "", acts.PRDHash(r.input.PRD)
	return nil
}

// discard removes the files of a run that did not start. After an interrupt it keeps them, because
// the run may have started.
func (r *run) discard(ctx context.Context, conn *hall.Connection, from *project.Project) error {
	if ctx.Err() != nil || r.input.Resume {
		return nil
	}
	var err error
	if r.input.PRDHash != "" {
		err = conn.Store.Delete(ctx, acts.PRDKey(r.slug, r.id))
	}
	r.document, r.result = nil, scenario.Run{}
	return errors.Join(err, from.Forget(r.slug, r.id))
}
