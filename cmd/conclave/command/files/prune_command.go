package files

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/engine/text"
	"conclave/workflows"
)

// pruneFlags are the flags of prune.
type pruneFlags struct {
	filter
	yes   bool
	given bool // a condition is given
}

// defaultAge is the age used without any condition. It is the time for which the
// embedded stack keeps histories.
const defaultAge = 30 * day

const day = cli.Age(cli.Day)

// PruneCommands returns `conclave prune` and `conclave delete` for runs of the kinds.
func PruneCommands(c *cli.CLI, kinds []*runs.Kind) []*cobra.Command {
	return []*cobra.Command{pruneCommand(c, kinds), deleteCommand(c)}
}

func pruneCommand(c *cli.CLI, kinds []*runs.Kind) *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old sessions; shows what it would do",
		Long: `Remove ended sessions, runs of pipelines and runs of scenarios: their files in the
store and their histories. Without --yes it only shows what would go, and how much
that frees.

A run must meet all given conditions; the default is --older-than 30d. The age counts
from the end of a run, or from the last change of its files if its history is gone.

Runs that have not ended are kept, paused and parked ones included, and so are
sessions that a kept session continues. The sessions of a pipeline's steps go with its
run. Bases that no kept run names are removed after a day without use. On this machine
prune also removes registered teams that no run refers to, old logs, and the hashes of
directories that were not uploaded lately. It keeps the files of scenarios in their
project.

On a cluster, name the bucket with --bucket, and the namespace if it is not the
default: a run that has neither a history there nor an end on record is left alone.

Exit code 2 says that something could not be removed; it is named. An interrupted
prune is finished by the next one.`,
		Example: `  conclave prune
  conclave prune --older-than 30d --keep 20 --yes
  conclave prune --status failed,cancelled --yes
  conclave prune --json | jq '.bytes'
  conclave prune --address temporal.example.com:7233 --bucket sessions --older-than 12w --yes`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.checkConditions(kinds); err != nil {
				return err
			}
			for _, name := range []string{"older-than", "keep", "status"} {
				f.given = f.given || cmd.Flags().Changed(name)
			}
			if !f.given {
				f.olderThan = defaultAge
			}
			return withInventory(cmd.Context(), c, func(inv *inventory) error { return pruneRuns(cmd.Context(), inv, f) })
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.Var(&f.olderThan, "older-than", "remove what ended longer ago than `AGE`, such as 36h, 30d or 12w")
	set.IntVar(&f.keep, "keep", 0, "keep the newest `N` of all that have ended, whatever their age")
	set.StringSliceVar(&f.statuses, "status", nil, "remove only what ended with this `STATUS`; several are separated by commas")
	set.BoolVar(&f.yes, "yes", false, "remove it, instead of showing what would go")
	return cmd
}

func deleteCommand(c *cli.CLI) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Remove one session",
		Long: `Remove an ended session, run of a pipeline or run of a scenario: its files in the
store and its history. The sessions of a pipeline's steps go with its run. It asks
for confirmation unless --yes is given; without a terminal, --yes is required.

A run of a scenario is named as SLUG/RUN_ID, or by RUN_ID if only one scenario has it.
A run that has not ended is refused, even if it is paused or parked: cancel it first.
A session that another one continues is refused as well.`,
		Example: `  conclave delete 20261121-153012-k3f9
  conclave delete --yes release-42
  conclave delete --yes buy/20261121-153012-k3f9      # a scenario's run`,
		Args: cli.Arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withInventory(cmd.Context(), c, func(inv *inventory) error { return deleteRun(cmd.Context(), inv, args[0], yes) })
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func withInventory(ctx context.Context, c *cli.CLI, use func(*inventory) error) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	if t.Cluster && c.Bucket == "" {
		return errors.New("the files of a cluster's sessions are in its bucket and go with their histories: name it with --bucket (and --prefix)")
	}
	return c.With(ctx, t, func(conn *cli.Connection) error {
		inv, err := takeInventory(ctx, conn)
		if err != nil {
			return err
		}
		return use(inv)
	})
}

func (f *pruneFlags) checkConditions(kinds []*runs.Kind) error {
	if f.keep < 0 {
		return fmt.Errorf("--keep is %d; give the number of runs to keep", f.keep)
	}
	if f.statuses != nil && len(f.statuses) == 0 {
		return errors.New("--status is given but empty; give it a value, or leave it out")
	}
	valid := endStatuses(kinds)
	for _, s := range f.statuses {
		if slices.Contains(valid, s) {
			continue
		}
		hint := "those are " + strings.Join(valid, ", ")
		if near, ok := text.Nearest(s, valid); ok {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("--status %q is not a status with which runs end; %s", text.Truncate(s, cli.MaxEcho), hint)
	}
	return nil
}

func endStatuses(kinds []*runs.Kind) []string {
	all := []string{workflows.Cancelled, unknown}
	for _, k := range kinds {
		all = append(all, k.Statuses...)
	}
	slices.Sort(all)
	return all
}

func (f *pruneFlags) commandLine(c *cli.CLI) string {
	command := "prune"
	if f.given && f.olderThan > 0 {
		command += " --older-than " + f.olderThan.String()
	}
	if f.keep > 0 || f.given && command == "prune" && len(f.statuses) == 0 {
		command += " --keep " + strconv.Itoa(f.keep)
	}
	if len(f.statuses) > 0 {
		command += " --status " + strings.Join(f.statuses, ",")
	}
	return c.CommandLine(command + " --yes")
}
