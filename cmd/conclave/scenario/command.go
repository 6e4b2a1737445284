package scenario

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/project"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// Command returns `conclave scenario`.
func Command(c *hall.CLI) *cobra.Command {
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
		RunE: hall.Group,
	}
	cmd.AddCommand(
		createCommand(c), runCommand(c), validateCommand(c), statusCommand(c), listCommand(c),
		watchCommand(c), pauseCommand(c), resumeCommand(c), cancelCommand(c),
	)
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
	return cmd
}

// commandLine returns the command line of a subcommand for a run.
func commandLine(c *hall.CLI, command, dir string, r *run) string {
	return c.CommandLine("scenario "+command, dir, r.slug, r.id)
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

func watchCommand(c *hall.CLI) *cobra.Command {
	cmd := controlCommand(c, "watch", "Follow a run and run its steps", `Follow a run to its end; results and evidence appear in DIR after every step.
Without an address, watch joins the local stack as a worker, so that an
interrupted run continues.`, func(ctx context.Context, conn *hall.Connection, o *order, r *run) error {
		defer live.Offer(conn, Kind())()
		printPage(conn, o.runs)
		r.problem = follow(ctx, conn, o, r, newBoard(c, o))
		return report(ctx, c, o)
	})
	team.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

func pauseCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "pause", "Suspend a run until it is resumed", `Suspend a run: the step is held where it is, and nothing new is begun. It runs no
steps.`, update(drive.PauseSignal, "resume", "paused, nothing is lost; `%s` resumes it"))
}

func resumeCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "resume", "Resume a paused run", `Resume a paused run where it was. A worker runs its steps: that of
watch, dev or worker.`, update(drive.ResumeSignal, "watch", "resumed; `%s` follows it"))
}

func cancelCommand(c *hall.CLI) *cobra.Command {
	return controlCommand(c, "cancel", "End a run", `End a run. Its step ends with cancelled, later ones are skipped, and the result is
completed. What was recorded is kept. It runs no steps.`, func(ctx context.Context, conn *hall.Connection, o *order, r *run) error {
		if err := runs.Cancel(ctx, conn, r.workflow()); err != nil {
			return fmt.Errorf("cancel %s: %w", r, err)
		}
		r.problem = follow(ctx, conn, o, r, newBoard(c, o))
		if err := report(ctx, c, o); hall.ExitCode(err) != hall.ExitNoAnswer || r.problem != nil {
			return err
		}
		return nil // the cancelled run is the success of this command
	})
}

// controlCommand returns a subcommand for one run, by default the newest open one. Only watch
// executes the run's steps.
func controlCommand(c *hall.CLI, name, short, long string, do func(context.Context, *hall.Connection, *order, *run) error) *cobra.Command {
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
			r, err := findRun(from, slug, id)
			if err != nil {
				return err
			}
			t, err := c.Target()
			if err != nil {
				return err
			}
			return c.With(cmd.Context(), t, func(conn *hall.Connection) error {
				var stop func()
				if name == "watch" {
					stop, err = team.RunWorker(conn, nil, r.workflow())
				} else {
					stop, err = team.RunObserver(conn)
				}
				if err != nil {
					return err
				}
				defer stop()
				return do(cmd.Context(), conn, &order{dir: args[0], project: from, runs: []*run{r}}, r)
			})
		},
	}
}

// findRun returns a run from the folder of its scenario. Without an ID it returns the newest open
// one.
func findRun(from *project.Project, slug, id string) (*run, error) {
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

// update sends an update to a run. Next is the subcommand that shows its effect.
func update(name, next, accepted string) func(context.Context, *hall.Connection, *order, *run) error {
	return func(ctx context.Context, conn *hall.Connection, o *order, r *run) error {
		asking, cancel := context.WithTimeout(ctx, runs.UpdateTimeout)
		defer cancel()
		var silence atomic.Pointer[string]
		stop := runs.NoteSilence(asking, conn, r.lookUp(asking, conn), func(why string, polled bool) {
			if polled {
				conn.Infof("%s", why)
				return
			}
			silence.Store(&why)
			cancel()
		})
		err := runs.Send(asking, conn, r.workflow(), name, nil, nil)
		stop()
		if err != nil {
			if result, readErr := o.project.Run(r.slug, r.id); readErr == nil && result.Over() {
				return fmt.Errorf("%s has ended: %s", r, result.Status)
			}
			if why := silence.Load(); why != nil {
				return fmt.Errorf("%s %s: %s", name, r, *why)
			}
			return withoutResult(ctx, conn, o.dir, r, err)
		}
		if conn.Scripted() {
			return conn.PrintJSON(map[string]any{"run_id": r.id, "accepted": true})
		}
		conn.Infof("%s: "+accepted, r, commandLine(conn.CLI, next, o.dir, r))
		return nil
	}
}
