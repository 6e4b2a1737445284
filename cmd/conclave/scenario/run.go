package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/project"
	"conclave/engine/config"
	"conclave/engine/scenario"
	"conclave/worker"
	scenarioflow "conclave/workflows/scenario"
)

// flags are what `scenario run` takes beyond the common flags.
type flags struct {
	all, offline bool
	retry, junit string
	parallel     int
	stepTimeout  time.Duration
}

func runCommand(c *hall.CLI) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:   "run DIR SLUG | DIR --all [flags]",
		Short: "Run a scenario, or all of them",
		Long: `Run the scenario SLUG of DIR, or all scenarios of DIR, several at once. Each step
gets an agent of its own, with the tools of the team file, which names exactly one
agent (--config, else DIR/conclave.yaml, else ./conclave.yaml). What runs is the
definition as it is when the run begins.

Results and evidence appear in DIR/scenarios/SLUG/runs/RUN_ID after every step.
Ctrl-C stops looking: the run is kept, and goes on whenever a worker runs.
--retry goes on with a run that did not pass from the step that failed, with the
definition that it began with.

Exit codes: 0 all passed, 1 wrong usage or configuration and nothing started,
2 failed or cancelled, 4 interrupted.`,
		Example: `  conclave scenario run shop buy --config tester.yaml
  conclave scenario run shop --all --junit report.xml
  conclave scenario run shop buy --retry 20261121-153012-k3f9
  conclave scenario run shop buy --automation | tail -n 1 | jq -r .status`,
		Args: hall.OptionalLast("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), c, flags, args[0], append(args, "")[1])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&flags.all, "all", false, "run all scenarios of DIR")
	f.IntVar(&flags.parallel, "parallel", 4, "how many scenarios run at once, with --all")
	f.StringVar(&flags.retry, "retry", "", "go on with the run `RUN_ID` from the step that failed")
	f.StringVar(&flags.junit, "junit", "", "write a JUnit report for CI systems to `FILE`")
	f.DurationVar(&flags.stepTimeout, "step-timeout", scenarioflow.DefaultStepSeconds*time.Second, "how long a step may take")
	f.BoolVar(&flags.offline, "offline", false, "replace the model by the built-in deterministic one: no key, no network, nothing is tested")
	return cmd
}

// order is a checked wish to run scenarios.
type order struct {
	flags  flags
	dir    string // as it was given
	from   *project.Project
	team   config.Team
	source string // of the team
	tools  *worker.Tools
	trials []*trial
}

func run(ctx context.Context, c *hall.CLI, flags flags, dir, slug string) error {
	if err := flags.check(slug); err != nil {
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
	w := &order{flags: flags, dir: dir, from: from}
	if err := w.load(slug); err != nil {
		return err
	}
	if w.team, w.source, err = tester(c, t, flags.offline, dir); err != nil {
		return err
	}
	if !t.Cluster {
		w.tools = team.NewTools()
		if err := team.CheckTools(ctx, w.tools, w.team, team.ThisProcess); err != nil {
			return err
		}
	}
	sayIdle(c, w)
	sayPRD(c, w)
	return c.With(ctx, t, func(conn *hall.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		return try(ctx, conn, w)
	})
}

func (f flags) check(slug string) error {
	switch {
	case f.all && slug != "":
		return errors.New("--all and SLUG exclude each other: name one scenario, or run all; leave one out")
	case !f.all && slug == "":
		return errors.New("scenario run needs SLUG, or --all; see `conclave scenario run --help`")
	case f.all && f.retry != "":
		return errors.New("--retry goes on with a run of one scenario: name its SLUG instead of --all")
	case f.parallel < 1:
		return fmt.Errorf("--parallel is %d; it takes at least 1", f.parallel)
	case f.stepTimeout < time.Second || f.stepTimeout > scenarioflow.MaxStepSeconds*time.Second:
		return fmt.Errorf("--step-timeout is %s; it takes 1s to %s", f.stepTimeout, scenarioflow.MaxStepSeconds*time.Second)
	}
	if f.junit != "" {
		if info, err := os.Stat(f.junit); err == nil && info.IsDir() {
			return fmt.Errorf("--junit %s is a directory; name a file", f.junit)
		}
		if _, err := os.Stat(filepath.Dir(f.junit)); err != nil {
			return fmt.Errorf("write the JUnit report: %w; make the directory first", err)
		}
	}
	return checkNames(slug, f.retry)
}

// load reads what is to be run. Nothing is started while one of them cannot be.
func (w *order) load(slug string) error {
	slugs := []string{slug}
	if w.flags.all {
		var err error
		if slugs, err = w.from.Slugs(); err != nil {
			return err
		}
		if len(slugs) == 0 {
			return fmt.Errorf("there is no scenario in %s; `conclave scenario create` makes one", w.from.Dir())
		}
	}
	var problems []error
	for _, slug := range slugs {
		t, err := w.trial(slug)
		problems = append(problems, err)
		w.trials = append(w.trials, t)
	}
	return errors.Join(problems...)
}

func (w *order) trial(slug string) (*trial, error) {
	t := &trial{slug: slug, id: w.flags.retry}
	if w.flags.retry != "" {
		d, err := w.from.Describe(slug)
		if err != nil {
			return nil, err
		}
		run, err := w.from.Run(slug, t.id)
		if err == nil && run.Over() && run.Status == scenario.Pass {
			err = fmt.Errorf("go on with run %s of scenario %s: it passed; start a new one without --retry", t.id, slug)
		}
		t.title, t.input.Resume, t.input.Plan.Slug = d.Plan.Title, true, slug
		return t, err
	}
	d, err := w.from.Load(slug)
	if err != nil {
		return nil, err
	}
	size := len(d.PRD)
	for _, content := range d.Files {
		size += len(content)
	}
	if size > scenarioflow.MaxDefinition {
		return nil, fmt.Errorf("the steps of scenario %s and prd.md have %d bytes together, at most %d are accepted; put large material where the agents can read it", slug, size, scenarioflow.MaxDefinition)
	}
	runs, _, err := w.from.Runs(slug)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		t.input.After = max(t.input.After, r.RunNumber)
	}
	t.id, t.title = hall.NewRunID(time.Now()), d.Plan.Title
	t.input.Plan, t.input.Files, t.input.PRD = d.Plan, d.Files, d.PRD
	t.input.Project = filepath.Base(w.from.Dir())
	return t, nil
}

// beginTrial starts the workflow of a run. Its folder is there before it, so that the
// run is known whatever happens to this process.
func beginTrial(ctx context.Context, conn *hall.Connection, w *order, t *trial) error {
	t.input.RunID = t.id
	t.input.StepTimeoutSeconds = int(w.flags.stepTimeout / time.Second)
	if !t.input.Resume {
		document, err := w.from.Begin(t.slug, t.id, time.Now())
		if err = errors.Join(err, t.take(document)); err != nil {
			return err
		}
	}
	if err := t.storePRD(ctx, conn); err != nil {
		return errors.Join(err, t.unstarted(ctx, conn, w.from))
	}
	starting, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	options := runs.Options(conn, t.workflow(), t.title, map[string]any{scenarioflow.MemoScenario: t.slug, scenarioflow.MemoRun: t.id}, w.flags.offline)
	_, err := conn.Client.ExecuteWorkflow(starting, options, scenarioflow.Type, t.input)
	if err == nil {
		return nil
	}
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &taken) {
		return fmt.Errorf("run %s of scenario %s goes on already; `%s` follows it", t.id, t.slug, commandLine(conn.CLI, "watch", w.dir, t.slug, t.id))
	}
	return fmt.Errorf("start scenario %s %s: %w", t.slug, conn.Target, errors.Join(err, t.unstarted(ctx, conn, w.from)))
}

// place puts the team where the workers find it.
func (w *order) place(conn *hall.Connection) error {
	for _, t := range w.trials {
		var err error
		if conn.Cluster {
			t.input.Config, err = w.team.Canonical()
		} else {
			t.input.Team, err = team.Registry(conn.Target).Register(w.team)
		}
		if err != nil {
			return fmt.Errorf("encode the team of %s: %w", w.source, err)
		}
	}
	return nil
}
