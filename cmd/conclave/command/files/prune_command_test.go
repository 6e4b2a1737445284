package files

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/test/stage"
)

func TestPrune_refusesWrongFlagsBeforeItStartsAnything(t *testing.T) {
	kinds := []*runs.Kind{{Statuses: []string{"failed", "budget"}}, {Statuses: []string{"error"}}}
	s := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command { return PruneCommands(c, kinds) })
	for says, line := range map[string][]string{
		"give an age such as 36h": {"prune", "--older-than", "soon"},
		"--keep is -1":            {"prune", "--keep", "-1"},
		"did you mean failed?":    {"prune", "--status", "faled"},
		"\"running\" is not a status with which runs end; those are budget, cancelled": {"prune", "--status", "running"},
		"name it with --bucket":              {"prune", "--address", "127.0.0.1:1"},
		"delete needs ID":                    {"delete"},
		"characters that no ID has":          {"delete", "a\nb"},
		"takes no arguments, got 1 argument": {"prune", "s1"},
		"--status is given but empty":        {"prune", "--status", ""},
	} {
		code, stdout, stderr := s.Run(line...)
		require.Equal(t, cli.ExitUsage, code, "%v", line)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says, "%v", line)
	}
	s.StartedNothing()
}

// The printed command line removes the listed runs: it has the same conditions.
func TestFlags_line(t *testing.T) {
	t.Parallel()
	c := &cli.CLI{Queue: "conclave"}
	for want, f := range map[string]pruneFlags{
		"conclave prune --yes":                                                {filter: filter{olderThan: defaultAge}},
		"conclave prune --older-than 30d --yes":                               {filter: filter{olderThan: 30 * day}, given: true},
		"conclave prune --keep 0 --yes":                                       {given: true},
		"conclave prune --older-than 1d --keep 5 --status failed,error --yes": {filter: filter{olderThan: day, keep: 5, statuses: []string{"failed", "error"}}, given: true},
	} {
		require.Equal(t, want, f.commandLine(c))
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	p := ended("p1", "completed", 1)
	p.Kind = record.Pipelines
	scenarioRun := &endedRun{Run: record.Scenarios.At(nil, "buy/r1"), workflow: "scenario-buy-r1"}
	other := &endedRun{Run: record.Scenarios.At(nil, "sell/r2"), workflow: "scenario-sell-r2"}
	twin := &endedRun{Run: record.Scenarios.At(nil, "sell/r1")}
	inv := &inventory{conn: &cli.Connection{CLI: &cli.CLI{Queue: "conclave"}}, runs: []*endedRun{ended("s1", "failed", 1), p, scenarioRun, other, twin}}
	for id, want := range map[string]string{"s1": "s1", "p1": "p1", "buy/r1": "buy/r1", "r2": "sell/r2", "scenario-buy-r1": "buy/r1"} {
		r, err := inv.findRun(t.Context(), id)
		require.NoError(t, err, id)
		require.Equal(t, want, r.ID)
	}
	_, err := inv.findRun(t.Context(), "r1")
	require.ErrorContains(t, err, "several scenarios have a run r1; name one of buy/r1, sell/r1")
	_, err = inv.findRun(t.Context(), "s9")
	require.ErrorContains(t, err, "there is no session s9")
}
