//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/local"
	"conclave/engine/coordination"
)

// Seconds after the first refusal, run prints the wait of each step, and status shows it.
// A working step shows its call without the earlier failures. An operator's pause is shown
// with the command that ends it.
func TestDoing(t *testing.T) {
	t.Parallel()
	const soon = 5 * time.Second                        // three seconds, plus two for a busy machine
	replies, release := context.WithCancel(t.Context()) // of agent_b
	defer release()
	model := newModelServer(t, map[string][]reply{
		"model-a": {{status: http.StatusTooManyRequests, after: 20}, answer("A."), vote("agent1", "Good.")},
		"model-b": {fails(503), fails(503), answer("B.").during(func() { <-replies.Done() }), vote("agent1", "Good.")},
	})
	c := newCLI(t)
	team := c.file("team.json", model.team("agent_a", "agent_b"))
	data := filepath.Join(c.home, "data")
	run := c.start("run", "--automation", "--data-dir", data, "--config", team, "--session-id", "doing", "Who?")
	doing := func() map[string]*coordination.Doing {
		var state struct{ Agents []coordination.AgentView }
		require.NoError(t, json.Unmarshal([]byte(c.conclave("status", "--data-dir", data, "--json", "doing").stdout), &state))
		all := map[string]*coordination.Doing{}
		for _, a := range state.Agents {
			all[a.ID] = a.Doing
		}
		return all
	}

	require.Eventually(t, func() bool { return model.calls("model-a") > 0 && model.calls("model-b") > 0 }, time.Minute, 10*time.Millisecond)
	prints := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(run.log.String(), text) }, soon, 20*time.Millisecond, "%q in:\n%s", text, run.log)
	}
	prints("agent_a: rate limit, next try in ")
	prints("agent_b: outage, ")
	limited := doing()["agent_a"]
	require.NotNil(t, limited)
	require.Equal(t, coordination.RateLimited, limited.Kind)
	require.InDelta(t, 20, limited.Until.Sub(limited.Since).Seconds(), 3)
	require.Contains(t, limited.What, "HTTP 429")
	require.Contains(t, c.conclave("status", "--data-dir", data, "doing").stdout, "rate limit, next try in ")

	require.Eventually(t, func() bool { return model.calls("model-b") > 1 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, coordination.ModelAway, doing()["agent_b"].Kind, "until its server replies")
	release()
	require.Equal(t, 1, strings.Count(run.log.String(), "agent_a: rate limit"), "a line for a wait, not for a heartbeat")

	stack, _, err := local.Find(data)
	require.NoError(t, err)
	require.Equal(t, 0, c.temporal("activity", "pause", "--address", stack.TemporalAddress, "--workflow-id", "doing", "--activity-id", "agent_a-l1").code)
	prints("agent_a: paused by ")
	require.Equal(t, coordination.OnHold, doing()["agent_a"].Kind)
	unpause := regexp.MustCompile("`temporal (activity unpause [^`]*)`").FindStringSubmatch(c.conclave("status", "--data-dir", data, "doing").stdout)
	require.NotNil(t, unpause)
	require.Equal(t, 0, c.temporal(strings.Fields(unpause[1])...).code)
	require.Equal(t, 0, run.ends(t))
}
