package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/project"
	"conclave/engine/config"
	"conclave/workflows/drive"
)

func (c *cli) scenarioWatchCommand() *cobra.Command {
	return c.onRun("watch", "Follow a run, and go on with it", `Follow a run to its end; results and evidence appear in DIR after every step.
Without an address, watch joins the local stack as a worker, so that a run that was
cut off goes on.`, func(ctx context.Context, p *place, w *wantedRuns) error {
		if !p.cluster {
			stop, err := c.work(p, c.passingTeam(p.target), runsSteps)
			if err != nil {
				return err
			}
			defer stop()
		}
		t := w.trials[0]
		t.problem = c.followTrial(ctx, p, w.from, w.dir, t, &trialBoard{cli: c})
		return c.reportTrials(ctx, w)
	})
}

func (c *cli) scenarioPauseCommand() *cobra.Command {
	return c.onRun("pause", "Suspend a run until it is resumed", `Suspend a run: the step is held where it is, and nothing new is begun. It runs no
steps.`, c.hold(drive.PauseSignal, "paused, nothing is lost; `%s` goes on"))
}

func (c *cli) scenarioResumeCommand() *cobra.Command {
	return c.onRun("resume", "Go on with a paused run", `Go on with a paused run where it was. A worker carries out its steps: that of
watch, dev or worker.`, c.hold(drive.ResumeSignal, "resumed; `%s` follows it"))
}

func (c *cli) scenarioCancelCommand() *cobra.Command {
	return c.onRun("cancel", "End a run", `End a run. Its step ends with cancelled, later ones are skipped, and the result is
completed. What was recorded is kept. It runs no steps.`, func(ctx context.Context, p *place, w *wantedRuns) error {
		return c.looking(p, func() error {
			t := w.trials[0]
			asking, stop := context.WithTimeout(ctx, reachTimeout)
			defer stop()
			var missing *serviceerror.NotFound // it has ended, or never was: what follows says so
			if err := p.client.CancelWorkflow(asking, t.workflow(), ""); err != nil && !errors.As(err, &missing) {
				return fmt.Errorf("cancel run %s of scenario %s: %w", t.id, t.slug, err)
			}
			t.problem = c.followTrial(ctx, p, w.from, w.dir, t, &trialBoard{cli: c})
			if err := c.reportTrials(ctx, w); codeOf(err) != exitNoAnswer || t.problem != nil {
				return err
			}
			return nil // it did what it was asked to
		})
	})
}

// onRun is a command about one run of a scenario: the one named, else the newest
// that has not ended.
func (c *cli) onRun(name, short, long string, do func(context.Context, *place, *wantedRuns) error) *cobra.Command {
	return &cobra.Command{
		Use:     name + " DIR SLUG [RUN_ID]",
		Short:   short,
		Long:    long + "\n\nWithout RUN_ID it is the newest run that has not ended.",
		Example: "  conclave scenario " + name + " shop buy 20261121-153012-k3f9",
		Args:    optional("DIR", "SLUG", "RUN_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			slug, id := args[1], append(args, "")[2]
			if err := checkScenario(slug, id); err != nil {
				return err
			}
			from, err := project.Open(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			run, err := chosenRun(from, slug, id)
			if err != nil {
				return err
			}
			t, err := c.target()
			if err != nil {
				return err
			}
			w := &wantedRuns{dir: args[0], from: from, trials: []*trial{run}}
			return c.at(cmd.Context(), t, func(p *place) error { return do(cmd.Context(), p, w) })
		},
	}
}

// chosenRun is a run of a scenario, as its folder has it.
func chosenRun(from *project.Project, slug, id string) (*trial, error) {
	d, err := from.Describe(slug)
	if err != nil {
		return nil, err
	}
	t := &trial{slug: slug, id: id, title: d.Plan.Title}
	t.input.Plan = d.Plan
	if id != "" {
		_, err := from.Run(slug, id)
		return t, err
	}
	runs, _, err := from.Runs(slug)
	for _, r := range runs {
		if !r.Over() {
			t.id = r.RunID
			return t, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("no run of scenario %s goes on; `conclave scenario status` shows those there are", slug)
	}
	return nil, err
}

// hold sends an update to a run.
func (c *cli) hold(name, done string) func(context.Context, *place, *wantedRuns) error {
	return func(ctx context.Context, p *place, w *wantedRuns) error {
		return c.looking(p, func() error {
			t := w.trials[0]
			asking, stop := context.WithTimeout(ctx, updateTimeout)
			defer stop()
			err := tryUpdate(asking, p, known{workflow: t.workflow()}, update{name: name})
			for tooEarly(err) && pause(asking, lookInterval) {
				err = tryUpdate(asking, p, known{workflow: t.workflow()}, update{name: name})
			}
			if err != nil {
				return cmp.Or(w.ended(t), withoutResult(t, err))
			}
			if !c.people() {
				return c.printJSON(map[string]any{"run_id": t.id, "accepted": true})
			}
			next := "watch"
			if name == drive.PauseSignal {
				next = "resume"
			}
			c.say("run %s of scenario %s: "+done, t.id, t.slug, c.scenarioAgain(next, w.dir, t.slug, t.id))
			return nil
		})
	}
}

// ended says how a run ended, by its folder; nil if it goes on there.
func (w *wantedRuns) ended(t *trial) error {
	run, err := w.from.Run(t.slug, t.id)
	if err != nil || !run.Over() {
		return nil
	}
	return fmt.Errorf("run %s of scenario %s has ended: %s", t.id, t.slug, run.Status)
}

// looking runs do with a worker that answers, and ends what can be ended, where
// there may be no other. It runs no steps.
func (c *cli) looking(p *place, do func() error) error {
	if !p.cluster {
		stop, err := c.work(p, config.Team{}, onlyLooks)
		if err != nil {
			return err
		}
		defer stop()
	}
	return do()
}
