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
		"list takes 0 argument(s), got 1":                                                               {"list", "x"},
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

// The keys of a listed run are part of the contract.
func TestRun_record(t *testing.T) {
	t.Parallel()
	pipeline, began := *session, time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	pipeline.StateKeys, pipeline.UsageKey = [2]string{"id", "request"}, "usage"
	one := Run{Kind: session, ID: "s", Status: "consensus", Query: "q", Started: began, Closed: began.Add(1500 * time.Millisecond)}
	step, run := one, one
	step.Pipeline, step.Continues, run.Kind = "p", "s0", &pipeline
	for want, r := range map[string]Run{
		`{"session_id":"s","kind":"session","status":"consensus","query":"q","created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"cost":null}`:                        one,
		`{"session_id":"s","kind":"pipeline_step","status":"consensus","query":"q","created_at":"2026-11-21T15:00:00Z","duration_seconds":1.5,"cost":null,"continues":"s0"}`: step,
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
