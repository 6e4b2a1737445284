package prune

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/hall/halltest"
)

func TestPrune_refusesWrongFlagsBeforeItStartsAnything(t *testing.T) {
	s := halltest.New(t, func(c *hall.CLI) []*cobra.Command { return Commands(c) })
	for says, line := range map[string][]string{
		"give an age such as 36h": {"prune", "--older-than", "soon"},
		"--keep is -1":            {"prune", "--keep", "-1"},
		"did you mean failed?":    {"prune", "--status", "faled"},
		"\"running\" is not a status with which runs end; those are budget, cancelled": {"prune", "--status", "running"},
		"name it with --bucket":       {"prune", "--address", "127.0.0.1:1"},
		"delete needs ID":             {"delete"},
		"characters that no ID has":   {"delete", "a\nb"},
		"takes 0 argument(s), got 1":  {"prune", "s1"},
		"--status is given but empty": {"prune", "--status", ""},
	} {
		code, stdout, stderr := s.Run(line...)
		require.Equal(t, hall.ExitUsage, code, "%v", line)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says, "%v", line)
	}
	s.StartedNothing()
}

// The printed command line removes the listed runs: it has the same conditions.
func TestFlags_line(t *testing.T) {
	t.Parallel()
	c := &hall.CLI{Queue: "conclave"}
	for want, f := range map[string]flags{
		"conclave prune --yes":                                                {},
		"conclave prune --older-than 30d --yes":                               {olderThan: hall.Age(30 * day), given: true},
		"conclave prune --keep 0 --yes":                                       {given: true},
		"conclave prune --older-than 1d --keep 5 --status failed,error --yes": {olderThan: hall.Age(day), keep: 5, statuses: []string{"failed", "error"}, given: true},
	} {
		require.Equal(t, want, f.line(c))
	}
	inv := &inventory{conn: &hall.Connection{}}
	require.Equal(t, 30*day, (&flags{}).filter(inv).olderThan, "without a condition it is a month")
	require.Zero(t, (&flags{given: true}).filter(inv).olderThan)
}

func TestFind(t *testing.T) {
	t.Parallel()
	p := ended("p1", "completed", 1)
	p.kind = pipelines
	scenarioRun := &run{kind: scenarios, id: "buy/r1", workflow: "scenario-buy-r1"}
	other := &run{kind: scenarios, id: "sell/r2", workflow: "scenario-sell-r2"}
	twin := &run{kind: scenarios, id: "sell/r1"}
	inv := &inventory{conn: &hall.Connection{CLI: &hall.CLI{Queue: "conclave"}}, runs: []*run{ended("s1", "failed", 1), p, scenarioRun, other, twin}}
	for id, want := range map[string]string{"s1": "s1", "p1": "p1", "buy/r1": "buy/r1", "r2": "sell/r2", "scenario-buy-r1": "buy/r1"} {
		r, err := inv.find(id)
		require.NoError(t, err, id)
		require.Equal(t, want, r.id)
	}
	_, err := inv.find("r1")
	require.ErrorContains(t, err, "that of several: scenario run buy/r1, scenario run sell/r1; name a scenario's run as SLUG/RUN_ID")
	_, err = inv.find("s9")
	require.ErrorContains(t, err, "there is no session s9")
}
