//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	acts "conclave/activities/session"
	sessionflow "conclave/workflows/session"
)

// Every command gives the same reason for the end of a run, and the same cost.
func TestEnds(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Spaces."), answer("Tabs.")}, "model-b": {limited(), limited(), limited(), limited()},
	})
	c := newCLI(t)
	at := address(t, c.start("dev", "--offline"))
	team := c.file("team.yaml", model.team("model-a", "model-b"))
	state := func(id string) (s acts.State) {
		require.NoError(t, json.Unmarshal([]byte(c.conclave("status", "--json", id).stdout), &s))
		return s
	}
	for _, id := range []string{"cancelled", "terminated"} {
		require.Equal(t, 0, c.conclave("start", "--config", team, "--session-id", id, "Tabs or spaces?").code)
		require.Eventually(t, func() bool { return state(id).Cost.ModelCalls == 1 }, time.Minute, 200*time.Millisecond)
	}

	require.Equal(t, "session cancelled: cancelled\n", c.conclave("cancel", "cancelled").stderr)
	out := c.conclave("result", "--json", "cancelled")
	require.Equal(t, 2, out.code)
	var result sessionflow.Result
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &result))
	require.Equal(t, "cancelled", result.Status)
	require.EqualValues(t, 1, result.Cost.ModelCalls)
	require.Equal(t, 0, c.conclave("pull", "--verify", "cancelled", "pulled").code)
	var pulled acts.State
	data, err := os.ReadFile(filepath.Join(c.home, "pulled", "status.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &pulled))
	for _, s := range []acts.State{state("cancelled"), pulled} {
		require.Equal(t, "cancelled", s.Status)
		require.EqualValues(t, "done", s.Phase)
		require.Equal(t, result.Cost, s.Cost)
	}
	out = c.conclave("status", "cancelled")
	require.Regexp(t, `(?s)^cancelled · cancelled · .*✓ model-a .* model-b +no answer.*\n  cancelled by \S+\n  go on with it: conclave retry cancelled\n`, out.stdout)
	require.Regexp(t, `"status": "cancelled",[^}]*"model_calls": 1`, c.conclave("list", "--json", "--status", "cancelled").stdout)

	require.Equal(t, 0, c.temporal("workflow", "terminate", "--address", at, "--workflow-id", "terminated", "--reason", "wrong question").code)
	out = c.conclave("status", "terminated")
	require.Regexp(t, `(?s)^terminated · failed · .*✓ model-a .* model-b +no answer.*\n  terminated by \S+: wrong question\n`, out.stdout)
	require.Equal(t, "Terminated", state("terminated").Error.Type)
	out = c.conclave("result", "--json", "terminated")
	require.Contains(t, out.stderr, "session terminated failed: terminated by ")
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &result))
	require.EqualValues(t, 1, result.Cost.ModelCalls)

	// No worker polls this queue.
	cluster := []string{"--address", at, "--task-queue", "nobody"}
	idle := "no worker polls the task queue nobody at " + at + " in the namespace default: start one with `conclave worker --bucket BUCKET --address "
	on := func(args ...string) output { return c.conclave(append(args, cluster...)...) }
	require.Contains(t, on("start", "--offline", "--session-id", "idle", "Anyone?").stderr, idle)
	out = on("status", "idle")
	require.Equal(t, 0, out.code)
	require.Regexp(t, `^idle · running · \d:\d\d · offline models\n  Anyone\?\n  the rest is unknown: no worker polls`, out.stdout)
	out = on("say", "idle", "Hurry.")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, idle)
	watch := c.start(append([]string{"watch", "idle"}, cluster...)...)
	watch.prints(t, idle)
	require.NoError(t, watch.Process.Kill())
}
