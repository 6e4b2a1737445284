package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"conclave/activities"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/project"
	"conclave/engine/config"
	"conclave/engine/scenario"
	"conclave/workflows/drive"
	scenarioflow "conclave/workflows/scenario"
)

// scenarioFlags are what `scenario run` takes beyond the common flags.
type scenarioFlags struct {
	all, offline bool
	retry, junit string
	parallel     int
	stepTimeout  time.Duration
}

func (c *cli) scenarioRunCommand() *cobra.Command {
	var flags scenarioFlags
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
		Args: optional("DIR", "SLUG"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.scenarioRun(cmd.Context(), flags, args[0], append(args, "")[1])
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

// wantedRuns is a checked wish to run scenarios.
type wantedRuns struct {
	flags  scenarioFlags
	dir    string // as it was given
	from   *project.Project
	team   config.Team
	source string // where the team is from
	trials []*trial
}

func (c *cli) scenarioRun(ctx context.Context, flags scenarioFlags, dir, slug string) error {
	if err := flags.check(slug); err != nil {
		return err
	}
	t, err := c.target()
	if err != nil {
		return err
	}
	from, err := project.Open(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	w := &wantedRuns{flags: flags, dir: dir, from: from}
	if err := w.load(slug); err != nil {
		return err
	}
	if w.team, w.source, err = c.tester(t, flags.offline, dir); err != nil {
		return err
	}
	if !t.cluster {
		if err := c.equip(ctx, w.team, inThisProcess); err != nil {
			return err
		}
	}
	c.sayIdle(w)
	c.sayPRD(w)
	return c.at(ctx, t, func(p *place) error {
		if err := probe(ctx, p); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		return c.try(ctx, p, w)
	})
}

func (f scenarioFlags) check(slug string) error {
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
	return checkScenario(slug, f.retry)
}

// load reads what is to be run. Nothing is started while one of them cannot be.
func (w *wantedRuns) load(slug string) error {
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

func (w *wantedRuns) trial(slug string) (*trial, error) {
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
	t.id, t.title = newSessionID(time.Now()), d.Plan.Title
	t.input.Plan, t.input.Files, t.input.PRD = d.Plan, d.Files, d.PRD
	t.input.Project = filepath.Base(w.from.Dir())
	return t, nil
}

// beginTrial starts the workflow of a run. Its folder is there before it, so that the
// run is known whatever happens to this process.
func (c *cli) beginTrial(ctx context.Context, p *place, w *wantedRuns, t *trial) error {
	t.input.RunID = t.id
	t.input.StepTimeoutSeconds = int(w.flags.stepTimeout / time.Second)
	if !t.input.Resume {
		document, err := w.from.Begin(t.slug, t.id, time.Now())
		if err = errors.Join(err, t.take(document)); err != nil {
			return err
		}
	}
	if err := t.storePRD(ctx, p); err != nil {
		return errors.Join(err, t.unstarted(ctx, p, w.from))
	}
	starting, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	_, err := p.client.ExecuteWorkflow(starting, trialOptions(p, w, t), scenarioflow.Type, t.input)
	if err == nil {
		return nil
	}
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &taken) {
		return fmt.Errorf("run %s of scenario %s goes on already; `%s` follows it", t.id, t.slug, c.scenarioAgain("watch", w.dir, t.slug, t.id))
	}
	return fmt.Errorf("start scenario %s %s: %w", t.slug, p.where(), errors.Join(err, t.unstarted(ctx, p, w.from)))
}

// trialOptions are those that the workflow of a run is started with.
func trialOptions(p *place, w *wantedRuns, t *trial) client.StartWorkflowOptions {
	memo := map[string]any{
		scenarioflow.MemoScenario: t.slug,
		scenarioflow.MemoRun:      t.id,
		drive.MemoStatus:          drive.Running,
	}
	if w.flags.offline {
		memo[memoOffline] = true
	}
	return client.StartWorkflowOptions{
		ID:                                       t.workflow(),
		TaskQueue:                                p.queue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            progress.Cut(progress.Line(t.title), maxSummary),
		Memo:                                     memo,
	}
}

// place puts the team where the workers find it.
func (w *wantedRuns) place(p *place) error {
	for _, t := range w.trials {
		var err error
		if p.cluster {
			t.input.Config, err = w.team.Canonical()
		} else {
			t.input.Team, err = (activities.Teams{Dir: p.teamsDir()}).Register(w.team)
		}
		if err != nil {
			return fmt.Errorf("encode the team of %s: %w", w.source, err)
		}
	}
	return nil
}
