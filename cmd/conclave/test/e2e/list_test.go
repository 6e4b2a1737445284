//go:build e2e

package e2e

import (
	"encoding/json"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A question comes from a file or a pipe. list distinguishes the session of a pipeline's step from
// one that a person started, and shows the cost.
func TestQueryFileAndList(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	question := c.file("question.md", "Tabs or spaces?\n")
	require.Equal(t, 0, c.conclave("run", "--offline", "--session-id", "from-file", "--query-file", question).code)
	piped := c.command(binary(t, "CONCLAVE_BIN"), "run", "--offline", "--session-id", "piped", "-")
	piped.Stdin = strings.NewReader("Spaces or tabs?\n")
	require.NoError(t, piped.Run())
	out := c.conclave("pipeline", "run", "--offline", "--session-id", "graph", example(t, "decide.yaml"), "--query-file", question)
	require.Equal(t, 0, out.code, out.stderr)

	out = c.conclave("list", "--json", "--all")
	require.Equal(t, 0, out.code)
	var listed []struct {
		SessionID string  `json:"session_id"`
		Kind      string  `json:"kind"`
		Status    string  `json:"status"`
		Query     string  `json:"query"`
		CreatedAt string  `json:"created_at"`
		Seconds   float64 `json:"duration_seconds"`
		Cost      *struct {
			ModelCalls int `json:"model_calls"`
		} `json:"cost"`
	}
	var keys []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &keys))
	require.Len(t, keys[0], 7)
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &listed))
	kinds, queries := map[string]string{}, map[string]string{}
	for _, l := range listed {
		kinds[l.SessionID], queries[l.SessionID] = l.Kind, l.Query
		require.Equal(t, "consensus", l.Status)
		require.Positive(t, l.Seconds)
		require.Positive(t, l.Cost.ModelCalls)
		require.NotEmpty(t, l.CreatedAt)
	}
	require.Equal(t, map[string]string{"from-file": "session", "piped": "session", "graph-decide-l2": "pipeline_step"}, kinds)
	require.Equal(t, "Spaces or tabs?", queries["piped"], "without the end of the line")

	out = c.conclave("list")
	require.NotContains(t, out.stdout, "graph-decide-l2")
	require.Contains(t, out.stderr, "1 started by pipelines or evaluations: --all lists them")
	require.NotContains(t, c.conclave("list", "--json").stdout, "graph-decide-l2")
	require.NotContains(t, c.conclave("list", "--kind", "pipeline_step").stdout, "piped")
	out = c.conclave("list", "--all", "--status", "consensus", "--since", "1h", "--limit", "1")
	require.Equal(t, 2, strings.Count(out.stdout, "\n"), out.stdout)
	require.Contains(t, out.stdout, "step of graph: ")
	require.Contains(t, out.stderr, "only the newest 1 are listed")
	require.Contains(t, c.conclave("list", "--status", "failed").stderr, "no sessions")
	require.Contains(t, c.conclave("pipeline", "list").stdout, "graph")

	c.gone()
	out = c.conclave("__complete", "status", "p")
	require.Equal(t, "piped\n:36\n", out.stdout)
	require.Contains(t, c.conclave("__complete", "transcript", "piped", "").stdout, "agent_b")
	require.NotContains(t, out.stderr, "starting the embedded")
}

// The first command of the help is the one to begin with.
func TestHelp_order(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `Ask a team:\n  run .*\n  start .*\n  watch `, newCLI(t).conclave("--help").stdout)
}

// dev serves on the ports that it is given, with the teams of a worker configuration.
func TestDevPortsAndWorkerConfig(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	var ports []string
	for range 3 {
		_, port, _ := net.SplitHostPort(freeAddress(t))
		ports = append(ports, port)
	}
	settings := c.file("worker.yaml", "teams:\n  default: {agents: [{id: solo, backend: {model: m}}]}\n")
	dev := c.start("dev", "--offline", "--worker-config", settings, "--port", ports[0], "--ui-port", ports[1], "--s3-port", ports[2])
	require.Equal(t, "127.0.0.1:"+ports[0], address(t, dev))
	for _, port := range ports {
		require.Contains(t, dev.log.String(), "127.0.0.1:"+port)
	}
	require.Contains(t, dev.log.String(), "solo")
	started := c.temporal("workflow", "start", "--address", "127.0.0.1:"+ports[0], "--task-queue", "conclave", "--type", "Session", "--workflow-id", "own", "--input", `{"query":"Who?"}`)
	require.Equal(t, 0, started.code)
	out := c.conclave("result", "--wait", "--json", "own")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, `"winner": "solo"`)
	require.Equal(t, "own", strings.Split(c.conclave("__complete", "status", "").stdout, "\t")[0])

	other := c.conclave("dev", "--offline", "--port", "1")
	require.Equal(t, 1, other.code)
	require.Contains(t, other.stderr, "runs already, with "+ports[0])
	require.NoError(t, dev.Process.Signal(syscall.SIGINT))
	dev.ends(t)
}
