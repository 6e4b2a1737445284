//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"conclave/workflows"
)

// reviewers is a worker configuration whose team has one agent.
const reviewers = "teams:\n  reviewers: {agents: [{id: agent_a, backend: {type: openai, model: model-a}}]}\n"

// findsOne waits until `conclave list` finds one session, because a list is behind by a moment.
func (w clusterWorker) findsOne(id string, flags ...string) {
	w.cli.t.Helper()
	var found []struct {
		SessionID string `json:"session_id"`
	}
	require.Eventually(w.cli.t, func() bool {
		out := w.cli.conclave(append([]string{"list", "--json", "--address", w.address}, flags...)...)
		return out.code == 0 && json.Unmarshal([]byte(out.stdout), &found) == nil && len(found) == 1
	}, 20*time.Second, 200*time.Millisecond)
	require.Equal(w.cli.t, id, found[0].SessionID)
}

// A failed session completes its workflow. Its search attributes find it, in conclave and in other clients, and its
// memo and current details show the status and the reason.
func TestFailedSessionIsFound(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Answer A."), vote("agent1", "Mine."), fails(401)}})
	s := newSite(t)
	w := newClusterWorker(t, s, model, reviewers)
	w.start()
	for _, ends := range []struct {
		id   string
		code int
	}{{"fine", 0}, {"doomed", 2}} {
		require.Equal(t, 0, w.conclave("start", "--team", "reviewers", "--session-id", ends.id, "Q?").code)
		require.Equal(t, ends.code, w.conclave("result", "--wait", ends.id).code)
	}
	w.findsOne("doomed", "--team", "reviewers", "--status", "failed", "--since", "1h")
	w.findsOne("fine", "--team", "reviewers", "--status", "consensus")

	query := "ConclaveKind = 'session' AND ConclaveStatus = 'failed' AND ConclaveTeam = 'reviewers'"
	out := w.cli.temporal("workflow", "list", "--address", w.address, "--query", query, "--output", "json")
	require.Contains(t, out.stdout, `"workflowId": "doomed"`)
	require.NotContains(t, out.stdout, `"fine"`)
	described, err := s.client.DescribeWorkflowExecution(t.Context(), "doomed", "")
	require.NoError(t, err)
	var status string
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(described.GetWorkflowExecutionInfo().GetMemo().GetFields()[workflows.MemoStatus], &status))
	require.Equal(t, "failed", status)
	out = w.cli.temporal("workflow", "metadata", "--address", w.address, "--workflow-id", "doomed")
	require.Contains(t, out.stdout, "failed")
	require.Contains(t, out.stdout, "AuthFailed")
}

// A namespace without search attributes runs sessions all the same. The command in the worker's warning registers
// them, and the next worker sets them.
func TestUnregisteredAttributes(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {
		answer("Answer A."), vote("agent1", "Mine."), answer("Answer A."), vote("agent1", "Mine."),
	}})
	s := newSite(t)
	w := newClusterWorker(t, s, model, reviewers)
	out := w.cli.temporal("operator", "namespace", "create", "--address", w.address, "--namespace", "bare")
	require.Equal(t, 0, out.code)
	bare := []string{"--namespace", "bare"}
	w.args = append(w.args, append(bare, "--log-format", "json")...)
	ask := func(id string) {
		require.Equal(t, 0, w.conclave(append(bare, "start", "--team", "reviewers", "--session-id", id, "Q?")...).code)
		require.Equal(t, 0, w.conclave(append(bare, "result", "--wait", id)...).code)
	}
	first := w.start()
	ask("unindexed")
	refused := w.conclave(append(bare, "list", "--team", "reviewers")...)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "the namespace has no search attribute ConclaveTeam")

	_, command, found := strings.Cut(first.log.String(), "register the missing ones: temporal ")
	require.True(t, found, "no warning")
	command, _, _ = strings.Cut(command, `"`)
	require.Equal(t, 0, w.cli.temporal(append(strings.Fields(command), "--address", w.address)...).code)
	require.NoError(t, first.Process.Kill())
	first.ends(t)
	w.start()
	ask("indexed")
	w.findsOne("indexed", append(bare, "--team", "reviewers")...)
}
