package files

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

// served is a shop whose runs have histories on a server: s1 decided long ago, s10 runs and
// continues s1, p1 failed with its session, w1 has no files.
func served(t *testing.T) (*shop, *stage.Server) {
	t.Helper()
	s := newShop(t)
	for id, kind := range map[string]string{"sessions/s1/session.json": "s1", "sessions/s10/session.json": "s10", "pipelines/p1/pipeline.json": "p1"} {
		data, err := s.store.Get(t.Context(), id)
		require.NoError(t, err)
		s.put(id, strings.Replace(string(data), "{", `{"workflow_id":"`+kind+`",`, 1))
	}
	server, done := &stage.Server{}, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	old := time.Now().Add(-100 * cli.Day)
	server.Add(&stage.Execution{ID: "s1", Type: sessionflow.Type, Status: done, Started: old, Memo: map[string]any{workflows.MemoStatus: "consensus", workflows.MemoQuery: "Why?"}})
	server.Add(&stage.Execution{ID: "s10", Type: sessionflow.Type, Started: time.Now()})
	server.Add(&stage.Execution{ID: "p1", Type: pipelineflow.Type, Status: done, Started: old, Memo: map[string]any{workflows.MemoStatus: "error"}})
	server.Add(&stage.Execution{ID: "w1", Type: sessionflow.Type, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, Started: old.Add(time.Hour)})
	server.Add(&stage.Execution{ID: "foreign", Type: "Order", Status: done, Started: old})
	s.conn.Client = server
	return s, server
}

func (s *shop) take() *inventory {
	s.t.Helper()
	inv, err := takeInventory(s.t.Context(), s.conn)
	require.NoError(s.t, err)
	return inv
}

// The inventory combines files and histories, and lists the newest end first.
func TestTake(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	got := map[string]string{}
	var last time.Time
	for i, r := range s.take().runs {
		got[r.String()] = r.status
		if i > 0 {
			require.False(t, r.ended.After(last))
		}
		last = r.ended
		require.Equal(t, r.ID == "s10", r.open, r.ID)
	}
	require.Equal(t, map[string]string{
		"session s1": "consensus", "session s10": "running", "session w1": "failed", "pipeline run p1": "error",
		"session p1-decide-l2-2": unknown, "session p1-draft-l9": unknown, "scenario run buy/r1": "fail",
	}, got)
	require.Empty(t, s.errs.String())
}

// Without --yes nothing is removed; a person sees the list, the total and the command that removes
// it.
func TestPrune_dryRun(t *testing.T) {
	t.Parallel()
	s, server := served(t)
	before := s.keys("")
	out := &strings.Builder{}
	s.conn.Stdout = out
	require.NoError(t, pruneRuns(t.Context(), s.take(), pruneFlags{filter: filter{olderThan: 30 * day}, given: true}))
	require.Regexp(t, `(?m)^session +w1 +failed +\d{4}-\d\d-\d\d \d\d:\d\d `, out.String())
	require.Regexp(t, `(?m)^pipeline +p1 +error `, out.String())
	require.Contains(t, out.String(), "  └ session  p1-decide-l2-2", "the sessions of its steps go with it")
	require.NotContains(t, out.String(), "s10")
	require.Contains(t, s.errs.String(), "kept: session s1: ", "s10 continues it")
	require.Contains(t, s.errs.String(), "nothing was removed; `conclave prune --older-than 30d --yes` removes it")
	require.Equal(t, before, s.keys(""))
	require.NotNil(t, server.Find("w1"))
}

func TestPrune_removes(t *testing.T) {
	t.Parallel()
	s, server := served(t)
	s.conn.Automation = true
	out := &strings.Builder{}
	s.conn.Stdout = out
	require.NoError(t, pruneRuns(t.Context(), s.take(), pruneFlags{filter: filter{olderThan: 30 * day}, given: true, yes: true}))
	var r pruneReport
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
	require.False(t, r.DryRun)
	var ids []string
	for _, one := range r.Runs {
		require.Empty(t, one.Error)
		ids = append(ids, one.ID)
	}
	require.ElementsMatch(t, []string{"p1", "p1-decide-l2-2", "w1"}, ids)
	require.Len(t, r.Kept, 1)
	require.Empty(t, s.keys("pipelines/p1/"))
	require.Empty(t, s.keys("sessions/p1-decide-l2-2/"))
	require.NotEmpty(t, s.keys("sessions/s1/"))
	require.Nil(t, server.Find("p1"))
	require.Nil(t, server.Find("w1"))
	require.NotNil(t, server.Find("s10"))
	require.NotNil(t, server.Find("foreign"), "workflows of other programs stay")
}

func TestPrune_nothingToRemove(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	out := &strings.Builder{}
	s.conn.Stdout = out
	require.NoError(t, pruneRuns(t.Context(), s.take(), pruneFlags{filter: filter{olderThan: 3000 * day}, given: true}))
	require.Equal(t, "nothing to remove\n", out.String())
	require.NotContains(t, s.errs.String(), "--yes")
}

// A run that was reopened after the inventory is kept and named.
func TestPrune_reopenedMeanwhile(t *testing.T) {
	t.Parallel()
	s, server := served(t)
	inv := s.take()
	server.Add(&stage.Execution{ID: "p1", Type: pipelineflow.Type, Started: time.Now()})
	err := pruneRuns(t.Context(), inv, pruneFlags{filter: filter{statuses: []string{"error"}}, given: true, yes: true})
	require.Equal(t, cli.ExitNoAnswer, cli.ExitCode(err))
	require.ErrorContains(t, err, "1 could not be removed")
	require.Contains(t, s.errs.String(), "remove pipeline p1: it is running")
	require.NotEmpty(t, s.keys("pipelines/p1/"))
	require.NotContains(t, s.keys("pipelines/p1/"), "pipelines/p1/"+artifact.Deleted, "its mark is taken back")
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s, server := served(t)
	server.Add(&stage.Execution{ID: "held", Type: sessionflow.Type, Started: time.Now(), Memo: map[string]any{workflows.MemoStatus: workflows.Parked}})
	for id, want := range map[string]string{
		"held":           "session held has not ended: it is parked; `conclave cancel held` ends it, then delete it",
		"s10":            "session s10 has not ended: it is running; `conclave cancel s10` ends it, then delete it",
		"p1-decide-l2-2": "is a step of pipeline run p1, which needs it; `conclave delete p1` removes both",
		"s1":             "session s1 is needed: ",
		"nobody":         "there is no session nobody",
		"w1":             "nothing was removed: there is no terminal to ask on; give --yes",
	} {
		err := deleteRun(t.Context(), s.take(), id, false)
		require.ErrorContains(t, err, want, id)
	}
	require.NotNil(t, server.Find("w1"))
	require.NoError(t, deleteRun(t.Context(), s.take(), "w1", true))
	require.Nil(t, server.Find("w1"))
	require.NoError(t, deleteRun(t.Context(), s.take(), "r1", true), "the ID of a scenario's run, without its slug")
	require.Empty(t, s.keys("scenarios/buy/runs/"))
}

func TestTake_withoutAServer(t *testing.T) {
	t.Parallel()
	s, server := served(t)
	server.Down = errors.New("connection reset")
	_, err := takeInventory(t.Context(), s.conn)
	require.ErrorContains(t, err, "list the workflows")
	require.ErrorContains(t, err, "connection reset")
}

func TestReport_sum(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]pruneReport{
		"nothing to remove":                              {},
		"1 run: 0 bytes":                                 {Runs: []reported{{}}},
		"2 runs, 1 unused team, 1 old log: 1.5 KB":       {Runs: []reported{{}, {}}, Leftovers: []leftover{{Name: "teams/x.json"}, {Name: "logs/y"}}, Bytes: 1536},
		"0 runs, 2 old logs: 1.9 MB":                     {Leftovers: []leftover{{Name: "logs/x"}, {Name: "logs/y"}}, Bytes: 2_000_000},
		"0 runs, unused bases: 2.8 GB":                   {Bases: reportedBases{Objects: 1}, Bytes: 3_000_000_000},
		"1 run, 2 unused teams, unused bases: 999 bytes": {Runs: []reported{{}}, Leftovers: []leftover{{Name: "teams/x"}, {Name: "teams/y"}}, Bases: reportedBases{Objects: 2}, Bytes: 999},
	} {
		require.Equal(t, want, r.formatTotals())
	}
}
