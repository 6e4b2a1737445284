package runs

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/test/stage"
)

func TestArgumentNames(t *testing.T) {
	t.Parallel()
	for use, names := range map[string][]string{
		"pull ID DIR":                        {"ID", "DIR"},
		"run [flags] FILE REQUEST":           {"FILE", "REQUEST"},
		"validate [FILE...]":                 {"FILE"},
		"transcript ID AGENT STEP":           {"ID", "AGENT", "STEP"},
		"step --session-dir DIR":             {"DIR"},
		"step --session-dir=DIR (--a | --b)": nil,
		"list":                               nil,
	} {
		require.Equal(t, names, argumentNames(use), use)
	}
}

// Without a stack that runs, IDs and agents come from the files in the data directory, and
// nothing is started.
func TestComplete_withoutAStack(t *testing.T) {
	kind := *session
	other := Kind{Kind: record.Scenarios, MemoSlug: "scenario"}
	s := stage.NewShell(t, func(c *cli.CLI) []*cobra.Command {
		root := &cobra.Command{Use: "conclave"}
		root.AddCommand(Commands(c, []*Kind{&kind, &other}, nil)...)
		root.AddCommand(&cobra.Command{Use: "pull ID DIR", Run: func(*cobra.Command, []string) {}})
		ask := &cobra.Command{Use: "ask", Run: func(*cobra.Command, []string) {}}
		ask.Flags().String("team", "", "")
		ask.Flags().String("continue", "", "")
		ask.Flags().String("run", "", "")
		teams.WorkerConfigFlag(c, ask.Flags())
		root.AddCommand(ask)
		Complete(c, root, []*Kind{&kind, &other})
		return root.Commands()
	})
	complete := func(line ...string) string {
		code, stdout, _ := s.Run(append([]string{"__complete"}, line...)...)
		require.Equal(t, cli.ExitOK, code)
		return stdout
	}
	require.Equal(t, ":36\n", complete("status", ""), "an empty data directory has none")
	s.StartedNothing()
	sessions := filepath.Join(s.Home, ".local/share/conclave/s3/conclave/sessions")
	for _, dir := range []string{"s1/agents/agent_a", "s1/agents/agent_b", "other/agents"} {
		require.NoError(t, os.MkdirAll(filepath.Join(sessions, dir), 0o700))
	}
	require.Equal(t, "s1\n:36\n", complete("status", "s"))
	require.ElementsMatch(t, []string{"s1", "other", ":36"}, strings.Fields(complete("pull", "")))
	require.Equal(t, ":16\n", complete("pull", "s1", ""), "a directory follows")
	require.NoError(t, os.MkdirAll(filepath.Join(sessions, "../scenarios/buy/runs/r1"), 0o700))
	require.Equal(t, "buy/r1\n:36\n", complete("status", "b"), "a scenario's run has its scenario in its name")
	require.Equal(t, "s1\n:36\n", complete("ask", "--continue", "s"))
	require.Equal(t, ":36\n", complete("ask", "--run", "s"), "a session is no run of a pipeline")
	require.Equal(t, "agent_a\nagent_b\n:4\n", complete("say", "s1", "text", "--agent", ""))
	require.Equal(t, ":4\n", complete("say", "s1", ""), "a text is not completed")
	require.Equal(t, ":4\n", complete("retry", "../s1", "--agent", ""))
	require.NoFileExists(t, filepath.Join(s.Home, ".local/share/conclave/stack.lock"))

	s.File("worker.yaml", "teams: {pair: {agents: [{id: a, backend: {type: offline}}]}}")
	require.Equal(t, "default\n:4\n", complete("ask", "--team", ""))
	require.Equal(t, "default\npair\n:4\n", complete("ask", "--worker-config", "worker.yaml", "--team", ""))
	require.Equal(t, "yaml\nyml\njson\n:8\n", complete("ask", "--worker-config", ""))
}

// pages is a server with pages of runs, the newest first.
type pages struct {
	client.Client
	runs, size int
}

func (p pages) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	from, _ := strconv.Atoi(string(request.GetNextPageToken()))
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	for n := from; n < min(from+p.size, p.runs); n++ {
		page.Executions = append(page.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: "s" + strconv.Itoa(n)}})
	}
	if from+p.size < p.runs {
		page.NextPageToken = []byte(strconv.Itoa(from + p.size))
	}
	return page, nil
}

// A run is completed by its prefix, however many newer ones there are.
func TestNewest_beyondTheFirstPage(t *testing.T) {
	t.Parallel()
	conn := &cli.Connection{CLI: &cli.CLI{}, Client: pages{runs: 1000, size: 100}}
	found := newestRuns(t.Context(), conn, []*Kind{session}, "s99")
	require.Len(t, found, 11)
	require.Equal(t, "s99", found[0].shortestName())
	require.Equal(t, "s999", found[10].shortestName())
	require.Len(t, newestRuns(t.Context(), conn, []*Kind{session}, ""), maxCompletions)
	require.Equal(t, "buy/r1", Run{ID: "r1", Slug: "buy", Workflow: "scenario-buy-r1"}.shortestName())
	require.Equal(t, "s1", Run{ID: "s1", Workflow: "p1-s1"}.shortestName())
}

func TestNouns(t *testing.T) {
	t.Parallel()
	kinds := []*Kind{{Kind: record.Sessions}, {Kind: record.Pipelines}, {Kind: record.Scenarios}}
	require.Equal(t, "session", joinNouns(kinds[:1]))
	require.Equal(t, "session or pipeline run", joinNouns(kinds[:2]))
	require.Equal(t, "session, pipeline run or scenario run", joinNouns(kinds))
}
