package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/engine/coordination"
	"conclave/engine/pipeline"
	"conclave/engine/scenario"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// flags are the flags of prune.
type flags struct {
	olderThan hall.Age
	keep      int
	statuses  []string
	yes       bool

	given bool // a condition is given
}

// defaultAge is the age used without any condition. It is the time for which the
// embedded stack keeps histories.
const defaultAge = hall.Age(30 * day)

const day = hall.Day

// Commands returns `conclave prune` and `conclave delete`.
func Commands(c *hall.CLI) []*cobra.Command {
	return []*cobra.Command{pruneCommand(c), deleteCommand(c)}
}

func pruneCommand(c *hall.CLI) *cobra.Command {
	var f flags
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
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			for _, name := range []string{"older-than", "keep", "status"} {
				f.given = f.given || cmd.Flags().Changed(name)
			}
			return withInventory(cmd.Context(), c, func(inv *inventory) error { return prune(cmd.Context(), inv, f) })
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

func deleteCommand(c *hall.CLI) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Remove one session",
		Long: `Remove an ended session, run of a pipeline or run of a scenario: its files in the
store and its history. The sessions of a pipeline's steps go with its run. It asks
for confirmation unless --yes is given; without a terminal, --yes is required.

A run that has not ended is refused, even if it is paused or parked: cancel it first.
A session that another one continues is refused as well.`,
		Example: `  conclave delete 20261121-153012-k3f9
  conclave delete --yes release-42
  conclave delete --yes buy/20261121-153012-k3f9      # a scenario's run`,
		Args: hall.Arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withInventory(cmd.Context(), c, func(inv *inventory) error { return deleteOne(cmd.Context(), inv, args[0], yes) })
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// withInventory connects to Temporal and the store and takes the inventory.
func withInventory(ctx context.Context, c *hall.CLI, use func(*inventory) error) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	if t.Cluster && c.Bucket == "" {
		return errors.New("the files of a cluster's sessions are in its bucket and go with their histories: name it with --bucket (and --prefix)")
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		inv, err := take(ctx, conn)
		if err != nil {
			return err
		}
		return use(inv)
	})
}

// check refuses conditions that can never hold.
func (f *flags) check() error {
	if f.keep < 0 {
		return fmt.Errorf("--keep is %d; give the number of runs to keep", f.keep)
	}
	if f.statuses != nil && len(f.statuses) == 0 {
		return errors.New("--status is given but empty; give it a value, or leave it out")
	}
	valid := statuses()
	for _, s := range f.statuses {
		if slices.Contains(valid, s) {
			continue
		}
		hint := "those are " + strings.Join(valid, ", ")
		if near, ok := text.Nearest(s, valid); ok {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("--status %q is not a status with which runs end; %s", text.Truncate(s, hall.MaxEcho), hint)
	}
	return nil
}

// statuses returns the statuses of ended runs.
func statuses() []string {
	all := []string{drive.Cancelled, unknown}
	for _, s := range []coordination.Status{
		coordination.Consensus, coordination.Plurality, coordination.Presented, coordination.Finished, coordination.Limit,
		coordination.Timeout, coordination.OverSpent, coordination.Undecided, coordination.FailedAll,
	} {
		all = append(all, string(s))
	}
	for _, s := range []pipeline.Status{pipeline.Completed, pipeline.Failed, pipeline.MaxIterations} {
		all = append(all, string(s))
	}
	all = append(all, string(scenario.Pass), string(scenario.Fail))
	slices.Sort(all)
	return all
}

// filter returns the filter given by the flags.
func (f *flags) filter(inv *inventory) filter {
	older := f.olderThan
	if !f.given {
		older = defaultAge
	}
	return filter{
		now: time.Now(), olderThan: time.Duration(older), keep: f.keep, statuses: f.statuses, elsewhere: inv.conn.Cluster,
	}
}

// line returns the command line that removes the runs listed by this one.
func (f *flags) line(c *hall.CLI) string {
	command := "prune"
	if f.olderThan > 0 {
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
