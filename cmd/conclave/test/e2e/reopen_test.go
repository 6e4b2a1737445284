//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	sessionflow "conclave/workflows/session"
)

// A session whose provider refused every agent has failed. retry continues it under the same ID,
// and no reply is paid for twice.
func TestRetry_failedSession(t *testing.T) {
	t.Parallel()
	script := func(text string) []reply {
		return []reply{write("notes.md", text), fails(http.StatusUnauthorized), answer(text), vote("agent1", "Good.")}
	}
	model := newModelServer(t, map[string][]reply{"model-a": script("A."), "model-b": script("B.")})
	c := newCLI(t)
	out := c.conclave("run", "--automation", "--session-id", "s1", "--config", c.file("team.yaml", model.team("agent_a", "agent_b")), "Who?")
	require.Equal(t, 2, out.code)
	result := out.result(t, "failed")
	require.EqualValues(t, 2, result.Cost.ModelCalls)

	require.Equal(t, 1, c.conclave("retry", "s1", "--agent", "agent_x").code, "nothing is started")
	require.Contains(t, c.conclave("status", "s1").stdout, "failed")
	out = c.conclave("retry", "s1")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stderr, "session s1 had ended (failed) and continues with everything that was paid for; `conclave watch s1` follows it")
	require.Contains(t, c.conclave("list").stdout, "Who?", "also while it is being prepared")
	out = c.conclave("watch", "--automation", "s1")
	require.Equal(t, 0, out.code)
	out.lastLine(t, &result)
	require.Equal(t, "consensus", result.Status)
	require.EqualValues(t, 6, result.Cost.ModelCalls)
	for _, name := range []string{"model-a", "model-b"} {
		require.Equal(t, 4, model.calls(name))
		require.Contains(t, model.request(name, 3), "notes.md", "the conversation goes on")
	}

	require.Equal(t, 1, strings.Count(c.conclave("list").stdout, "s1"))
	require.Contains(t, c.conclave("result", "s1").stdout, "A.")
	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--verify", "s1", dir).code)
	require.Contains(t, c.conclave("step", "--check", "--session-dir", dir).stdout, `"winner": "agent_a"`)

	out = c.conclave("retry", "s1")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "retry session s1: it has decided (consensus), and a decision stands; nothing was started, `conclave result s1` prints the answer")
	require.Contains(t, c.conclave("list").stdout, "consensus")
}

// A cancelled session continues with the conversation of the step that was running.
func TestRetry_cancelledSession(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(answer("Lost."))
	model := newModelServer(t, map[string][]reply{"model-a": {write("plan.md", "half of it"), lost, answer("A."), vote("agent1", "Mine.")}})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	run := c.start("run", "--automation", "--session-id", "s1", "--config", c.file("team.yaml", model.team("agent_a")), "Who?")
	<-asked
	require.Equal(t, 0, c.conclave("cancel", "s1").code)
	require.Equal(t, 2, run.ends(t))
	require.Equal(t, 0, c.conclave("retry", "s1").code)
	out := c.conclave("watch", "--automation", "s1")
	require.Equal(t, 0, out.code)
	result := out.result(t, "consensus")
	require.EqualValues(t, 3, result.Cost.ModelCalls)
	require.Contains(t, model.request("model-a", 3), "plan.md")
	require.Equal(t, 4, model.calls("model-a"))
}

// A stock client continues a terminated session from the state that its newest record saved.
func TestStockClient_resumesTerminated(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(vote("agent1", "Lost."))
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("plan.md", "half of it"), answer("A."), write("review.md", "fine"), lost, vote("agent1", "Mine.")},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	dev := c.start("dev", "--config", c.file("team.yaml", model.team("agent_a")))
	at := address(t, dev)
	start := func(input string) output {
		return c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Session", "--workflow-id", "s1", "--input", input)
	}
	require.Equal(t, 0, start(`{"query":"Who?"}`).code)
	<-asked
	require.Equal(t, 0, c.temporal("workflow", "terminate", "--address", at, "--workflow-id", "s1").code)
	require.Equal(t, 0, start(`{"resume":true}`).code)
	require.Equal(t, 0, c.temporal("workflow", "result", "--address", at, "--workflow-id", "s1").code)
	out := c.conclave("result", "--json", "s1")
	require.Equal(t, 0, out.code)
	var result sessionflow.Result
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &result))
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "A.", result.Answer)
	require.Equal(t, 2, result.Rounds)
	require.EqualValues(t, 4, result.Cost.ModelCalls)
	require.Contains(t, model.request("model-a", 5), "review.md")
	require.Equal(t, 5, model.calls("model-a"), "only the call under way is paid twice")
	require.Contains(t, c.conclave("status", "s1").stdout, "Who?")
	require.Equal(t, 0, c.conclave("pull", "--verify", "s1", filepath.Join(c.home, "pulled")).code)

	// A decision stands: resuming the session returns the same result.
	require.Equal(t, 0, start(`{"resume":true}`).code)
	require.Contains(t, c.temporal("workflow", "result", "--address", at, "--workflow-id", "s1").stdout, "consensus")
	require.Equal(t, "A.\n", c.conclave("result", "s1").stdout)
	require.Contains(t, c.conclave("list").stdout, "consensus")
	require.Contains(t, c.conclave("status", "s1").stdout, "consensus")
	require.Equal(t, 5, model.calls("model-a"))
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}
