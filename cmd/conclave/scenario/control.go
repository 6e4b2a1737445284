package scenario

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/workflows/drive"
)

func watchCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "watch", "Follow a run, and go on with it", `Follow a run to its end; results and evidence appear in DIR after every step.
Without an address, watch joins the local stack as a worker, so that a run that was
cut off goes on.`, func(ctx context.Context, conn *hall.Connection, o *order) error {
		stop, err := team.RunWorker(conn, nil)
		if err != nil {
			return err
		}
		defer stop()
		t := o.trials[0]
		t.problem = followTrial(ctx, conn, o.from, o.dir, t, &trialBoard{cli: c})
		return reportTrials(ctx, c, o)
	})
}

func pauseCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "pause", "Suspend a run until it is resumed", `Suspend a run: the step is held where it is, and nothing new is begun. It runs no
steps.`, update(drive.PauseSignal, "resume", "paused, nothing is lost; `%s` goes on"))
}

func resumeCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "resume", "Go on with a paused run", `Go on with a paused run where it was. A worker carries out its steps: that of
watch, dev or worker.`, update(drive.ResumeSignal, "watch", "resumed; `%s` follows it"))
}

func cancelCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "cancel", "End a run", `End a run. Its step ends with cancelled, later ones are skipped, and the result is
completed. What was recorded is kept. It runs no steps.`, func(ctx context.Context, conn *hall.Connection, o *order) error {
		stop, err := team.RunObserver(conn)
		if err != nil {
			return err
		}
		defer stop()
		t := o.trials[0]
		if err := runs.Cancel(ctx, conn, t.workflow()); err != nil {
			return fmt.Errorf("cancel run %s of scenario %s: %w", t.id, t.slug, err)
		}
		t.problem = followTrial(ctx, conn, o.from, o.dir, t, &trialBoard{cli: c})
		if err := reportTrials(ctx, c, o); hall.ExitCode(err) != hall.ExitNoAnswer || t.problem != nil {
			return err
		}
		return nil // a cancelled run is what the command was for
	})
}

// controlCommand is a command about one run: the named one, else the newest that has
// not ended.
func controlCommand(c *hall.CLI, name, short, long string, do func(context.Context, *hall.Connection, *order) error) *cobra.Command {
	return &cobra.Command{
		Use:     name + " DIR SLUG [RUN_ID]",
		Short:   short,
		Long:    long + "\n\nWithout RUN_ID it is the newest run that has not ended.",
		Example: "  conclave scenario " + name + " shop buy 20261121-153012-k3f9",
		Args:    hall.OptionalLast("DIR", "SLUG", "RUN_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			slug, id := args[1], append(args, "")[2]
			if err := checkNames(slug, id); err != nil {
				return err
			}
			from, err := project.Open(args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			run, err := findTrial(from, slug, id)
			if err != nil {
				return err
			}
			t, err := c.Target()
			if err != nil {
				return err
			}
			o := &order{dir: args[0], from: from, trials: []*trial{run}}
			return c.With(cmd.Context(), t, func(conn *hall.Connection) error { return do(cmd.Context(), conn, o) })
		},
	}
}

// findTrial finds a run of a scenario in its folder; without an ID, the newest that
// has not ended.
func findTrial(from *project.Project, slug, id string) (*trial, error) {
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
	all, _, err := from.Runs(slug)
	for _, r := range all {
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

// update sends an update to a run. Next is the command that shows its effect.
func update(name, next, accepted string) func(context.Context, *hall.Connection, *order) error {
	return func(ctx context.Context, conn *hall.Connection, o *order) error {
		stop, err := team.RunObserver(conn)
		if err != nil {
			return err
		}
		defer stop()
		t := o.trials[0]
		asking, cancel := context.WithTimeout(ctx, runs.UpdateTimeout)
		defer cancel()
		if err := runs.Send(asking, conn, t.workflow(), name, nil); err != nil {
			return cmp.Or(o.ended(t), withoutResult(t, err))
		}
		if conn.Scripted() {
			return conn.PrintJSON(map[string]any{"run_id": t.id, "accepted": true})
		}
		conn.Infof("run %s of scenario %s: "+accepted, t.id, t.slug, commandLine(conn.CLI, next, o.dir, t.slug, t.id))
		return nil
	}
}

// ended is the error for a run that has ended, by its folder; nil if it goes on.
func (o *order) ended(t *trial) error {
	run, err := o.from.Run(t.slug, t.id)
	if err != nil || !run.Over() {
		return nil
	}
	return fmt.Errorf("run %s of scenario %s has ended: %s", t.id, t.slug, run.Status)
}
