//go:build e2e

package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
)

// address returns the address of the stack of a running `conclave dev`.
func address(t *testing.T, dev *background) string {
	t.Helper()
	dev.prints(t, "--address")
	match := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(dev.log.String()[strings.Index(dev.log.String(), "--address"):])
	require.NotEmpty(t, match)
	return match
}

// Users start, watch and stop sessions with the Temporal CLI alone.
func TestStockTemporalClient(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dev := c.start("dev", "--offline")
	at := address(t, dev)

	out := c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Session",
		"--workflow-id", "stock", "--input", `{"query":"Does the stock client do?"}`)
	require.Equal(t, 0, out.code)

	out = c.temporal("workflow", "result", "--address", at, "--workflow-id", "stock", "--output", "json")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, "consensus")

	out = c.temporal("workflow", "query", "--address", at, "--workflow-id", "stock", "--type", "state", "--output", "json")
	require.Equal(t, 0, out.code)
	var answered struct {
		QueryResult []acts.State `json:"queryResult"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &answered), out.stdout)
	require.Len(t, answered.QueryResult, 1)
	require.Equal(t, "stock", answered.QueryResult[0].SessionID)
	require.Len(t, answered.QueryResult[0].Agents, 3)

	out = c.temporal("workflow", "describe", "--address", at, "--workflow-id", "stock")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, "consensus", "the memo tells the status")

	out = c.temporal("workflow", "metadata", "--address", at, "--workflow-id", "stock")
	require.Contains(t, out.stdout, "agent1", "the current details are the scoreboard")

	require.Equal(t, 0, c.conclave("status", "stock").code)
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}

func TestStockClientCancels(t *testing.T) {
	t.Parallel()
	atWork := make(chan struct{})
	hold := make(chan struct{})
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Too late.").during(func() { close(atWork); <-hold })},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	dev := c.start("dev", "--config", c.file("team.yaml", model.team("agent_a")))
	at := address(t, dev)
	start := func(id, input string) output {
		return c.temporal("workflow", "start", "--address", at, "--task-queue", "conclave", "--type", "Session", "--workflow-id", id, "--input", input)
	}
	require.Equal(t, 0, start("cancelled", `{"query":"Long?"}`).code)
	<-atWork
	require.Equal(t, 0, c.temporal("workflow", "cancel", "--address", at, "--workflow-id", "cancelled").code)
	require.Eventually(t, func() bool {
		return strings.Contains(c.temporal("workflow", "describe", "--address", at, "--workflow-id", "cancelled").stdout, "CANCELED")
	}, 20*time.Second, 200*time.Millisecond)
	require.Equal(t, 2, c.conclave("result", "cancelled").code)

	for name, input := range map[string]string{
		"no query":        `{}`,
		"inline base_url": `{"query":"q","config":{"agents":[{"id":"agent_a","backend":{"type":"openai","model":"m","base_url":"http://127.0.0.1:1/v1"}}]}}`,
		"unknown team":    `{"query":"q","team":"nobody"}`,
		"bad session id":  `{"query":"q","session_id":"../up"}`,
		"unknown key":     `{"query":"q","teem":"default"}`,
	} {
		id := "refused-" + strings.ReplaceAll(name, " ", "-")
		require.Equal(t, 0, start(id, input).code)
		out := c.temporal("workflow", "result", "--address", at, "--workflow-id", id)
		require.NotEqual(t, 0, out.code, name)
		require.Contains(t, out.stdout+out.stderr, "Failure", name)
	}

	// The directory of a session belongs to the workflow that claimed it.
	require.Equal(t, 0, start("thief", `{"query":"q","session_id":"cancelled"}`).code)
	out := c.temporal("workflow", "result", "--address", at, "--workflow-id", "thief")
	require.NotEqual(t, 0, out.code)
	require.Contains(t, out.stdout+out.stderr, "belongs to workflow")
	require.NoError(t, dev.Process.Signal(syscall.SIGINT))
	dev.ends(t)
}
