package runs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/test/stage"
	"conclave/engine/llm"
)

func TestList_refusesFlags(t *testing.T) {
	kind := *session
	kind.Statuses = []string{"consensus", "failed"}
	s := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command {
		return []*cobra.Command{(&List{Kind: &kind}).Add(c, &cobra.Command{Use: "list"})}
	})
	for says, line := range map[string][]string{
		`no session has the status "consensu"; did you mean consensus?`:                                 {"list", "--status", "consensu"},
		`no session has the status "x"; it takes cancelled, consensus, failed, parked, paused, running`: {"list", "--status", "failed,x"},
		"--limit is -1; give the number of runs to list, or 0 for all":                                  {"list", "--limit", "-1"},
		"give an age such as 36h, 30d or 12w":                                                           {"list", "--since", "yesterday"},
		`--kind: there is no kind "scenario"; it takes session, pipeline_step, evaluation`:              {"list", "--kind", "session,scenario"},
		"list takes no arguments, got 1 argument":                                                       {"list", "x"},
	} {
		code, stdout, stderr := s.Run(line...)
		require.Equal(t, cli.ExitUsage, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, says)
	}
	s.StartedNothing()
}

func TestList_table(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	dollars := 0.126
	ended := func(id, status string, age time.Duration) Run {
		return Run{Kind: session, ID: id, Status: status, Query: "Tabs or\nspaces, for a repository of many languages and habits?", Started: now.Add(-age), Closed: now.Add(-age + 61*time.Second)}
	}
	step, parked := ended("p1-decide-l2", "consensus", 3*cli.Day), ended("s2", "running", 90*time.Minute)
	step.Pipeline, parked.waiting = "p1", "parked"
	next := ended("s3", "consensus", 4*cli.Day)
	next.Continues = "s1"
	listed := []Run{ended("s1", "consensus", 5*time.Second), parked, step, next}
	listed[0].Usage, listed[1].Usage = &llm.Usage{ModelCalls: 2, TotalUSD: &dollars}, &llm.Usage{ModelCalls: 1, InputTokens: 4200}
	l := List{Kind: session, Titles: [2]string{"SESSION", "QUERY"}}
	const width = 70
	shown := l.formatTable(listed, now, width, true)
	require.Equal(t, `SESSION       STATUS     AGE  TIME  COST      QUERY
s1            consensus  5s   1:01  $0.13     Tabs or spaces, for a r…
s2            parked     1h   1:01  4.2k tok  Tabs or spaces, for a r…
p1-decide-l2  consensus  3d   1:01  –         step of p1: Tabs or spa…
s3            consensus  4d   1:01  –         continues s1: Tabs or s…
`, shown)
	for line := range strings.Lines(shown) {
		require.LessOrEqual(t, ansi.StringWidth(strings.TrimSuffix(line, "\n")), width)
	}
	piped := l.formatTable(listed, now, 0, false)
	require.Contains(t, piped, "s2            parked     2026-11-22T10:30:00Z  1:01  4.2k tok  Tabs or spaces, for a repository of many languages and ")
}

// Without --all and --kind only the runs that people started are listed.
func TestList_kinds(t *testing.T) {
	t.Parallel()
	mine, step, asked := Run{Kind: session, ID: "s1"}, Run{Kind: session, ID: "p1-decide-l2", Pipeline: "p1"}, Run{Kind: session, ID: "eval-e1-q1-1"}
	for name, tc := range map[string]struct {
		list List
		want []Run
	}{
		"none":              {List{}, []Run{mine}},
		"--all":             {List{all: true}, []Run{mine, step, asked}},
		"--kind session":    {List{kinds: []string{"session"}}, []Run{mine}},
		"--kind of both":    {List{kinds: []string{"evaluation", "pipeline_step"}}, []Run{step, asked}},
		"--all with --kind": {List{all: true, kinds: []string{"evaluation"}}, []Run{asked}},
	} {
		tc.list.Kind = session
		var listed []Run
		for _, r := range []Run{mine, step, asked} {
			if tc.list.hasKind(r) {
				listed = append(listed, r)
			}
		}
		require.Equal(t, tc.want, listed, name)
	}
}

func TestList_saysWhatItHides(t *testing.T) {
	t.Parallel()
	server := &stage.Server{}
	for _, id := range []string{"s1", "eval-e1-q1-1", "eval-e1-q2-1"} {
		server.Add(&stage.Execution{ID: id, Type: session.Workflow, Started: time.Now()})
	}
	conn, _, _ := server.Connect(nil)
	l := List{Kind: session, limit: 1}
	found, more, err := l.findNewest(t.Context(), conn)
	require.NoError(t, err)
	require.False(t, more, "what is hidden does not count")
	require.Equal(t, "s1", found[0].ID)
	require.Equal(t, 2, l.hidden)
}

// A long ID of one run leaves the queries of all runs their room.
func TestList_longIDs(t *testing.T) {
	t.Parallel()
	listed := []Run{{Kind: session, ID: "eval-gsm8k-2026-11-24-code-004-majority-1", Status: "consensus", Query: "Is seven a prime?"}, {Kind: session, ID: "s1", Status: "failed", Query: "Tabs?"}}
	l := List{Kind: session, Titles: [2]string{"SESSION", "QUERY"}}
	shown := l.formatTable(listed, time.Now(), 80, true)
	require.Contains(t, shown, "\n…11-24-code-004-majority-1  consensus ")
	require.Contains(t, shown, "  Is seven a prime?\n")
	require.Contains(t, l.formatTable(listed, time.Now(), 0, false), listed[0].ID, "whole for a program")
}

// The keys of a listed run are part of the contract.
func TestRun_record(t *testing.T) {
	t.Parallel()
	pipeline, began := *session, time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	pipeline.StateKeys, pipeline.UsageKey = [2]string{"id", "request"}, "usage"
	one := Run{Kind: session, ID: "s", Status: "consensus", Query: "q", Started: began, Closed: began.Add(1500 * time.Millisecond)}
	step, run := one, one
	asked := one
	step.Pipeline, step.Continues, run.Kind, asked.ID = "p", "s0", &pipeline, "eval-e-q1-1"
	for want, r := range map[string]Run{
		`{"session_id":"s","kind":"session","status":"consensus","query":"q","created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"cost":null}`:                        one,
		`{"session_id":"s","kind":"pipeline_step","status":"consensus","query":"q","created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"cost":null,"continues":"s0"}`: step,
		`{"session_id":"eval-e-q1-1","kind":"evaluation","status":"consensus","query":"q","created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"cost":null}`:           asked,
		`{"id":"s","status":"consensus","request":"q","created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"usage":null}`:                                              run,
	} {
		data, err := json.Marshal(r.listRecord())
		require.NoError(t, err)
		require.JSONEq(t, want, string(data))
	}
}

func TestAgeWords(t *testing.T) {
	t.Parallel()
	for age, words := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 59 * time.Minute: "59m", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 400 * cli.Day: "400d",
	} {
		require.Equal(t, words, ageWords(age))
	}
}

func TestCostCell(t *testing.T) {
	t.Parallel()
	free, little, cent := 0.0, 0.001, 0.01
	for want, r := range map[string]Run{
		"offline": {Offline: true, Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &free}},
		"–":       {},
		"$0.00":   {Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &free}},
		"< $0.01": {Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &little}},
		"$0.01":   {Usage: &llm.Usage{ModelCalls: 1, TotalUSD: &cent}},
		"≥ $0.50": {Usage: &llm.Usage{ModelCalls: 1, KnownUSD: 0.5}},
		"700 tok": {Usage: &llm.Usage{ModelCalls: 1, InputTokens: 600, OutputTokens: 100}},
	} {
		require.Equal(t, want, costCell(r))
	}
}

func TestRunOf_stepOfAPipeline(t *testing.T) {
	t.Parallel()
	r := runOf(session, &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "p1-decide-l2"}, ParentExecution: &commonpb.WorkflowExecution{WorkflowId: "p1"},
	})
	require.Equal(t, "p1", r.Pipeline)
}
