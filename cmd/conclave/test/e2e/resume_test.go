//go:build e2e

package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/pipeline"
	"conclave/engine/scenario"
)

// A pipeline whose step failed permanently continues from that step; earlier steps are kept.
func TestRetry_failedPipeline(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("draft.md", "a frog"), says("written")},
		"model-b": {read("draft.md"), fails(http.StatusUnauthorized), says("exported")},
	})
	c := newCLI(t)
	file := c.file("pipeline.yaml", model.pipeline(strings.Replace(called, "on_step_failure: park", "on_step_failure: stop", 1)))
	out := c.conclave("pipeline", "run", "--automation", "--id", "p1", file, "Write.")
	require.Equal(t, 2, out.code)
	require.Equal(t, pipeline.Failed, endOf(t, out).Status)
	out = c.conclave("retry", "p1")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stderr, "pipeline run p1 had ended (error) and continues with everything that was paid for; `conclave watch p1` follows it")
	out = c.conclave("watch", "--automation", "p1")
	require.Equal(t, 0, out.code)
	result := endOf(t, out)
	require.Equal(t, "main/completed export/error export/completed", traced(result))
	require.EqualValues(t, 4, result.Usage.ModelCalls)
	require.Equal(t, 2, model.calls("model-a"))
	require.Equal(t, 3, model.calls("model-b"))
	require.Contains(t, model.request("model-b", 3), "a frog", "the conversation goes on")
	require.Equal(t, 1, strings.Count(c.conclave("pipeline", "list").stdout, "p1"))

	out = c.conclave("retry", "p1")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "it has ended (completed), and its result stands; nothing was started")
}

// A pipeline that was terminated while a team was working continues in that team's
// session.
func TestRetry_terminatedPipeline(t *testing.T) {
	t.Parallel()
	lost, asked, hold := held(vote("agent1", "Lost."))
	model := newModelServer(t, map[string][]reply{
		"model-a": {says("written")},
		"model-b": {write("plan.md", "half of it"), answer("B."), lost, vote("agent1", "Mine.")},
	})
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	dev := c.start("dev")
	at := address(t, dev)
	file := c.file("pipeline.yaml", model.pipeline(`start: main
steps:
  - {name: main, agent: agent_a, next: decide}
  - {name: decide, kind: session, config: `+strings.ReplaceAll(model.team("agent_b"), "\n", "")+`}
`))
	run := c.start("pipeline", "run", "--automation", "--id", "p1", file, "Write.")
	<-asked
	require.Equal(t, 0, c.temporal("workflow", "terminate", "--address", at, "--workflow-id", "p1").code)
	require.Equal(t, 2, run.ends(t))
	require.Equal(t, 0, c.conclave("retry", "p1").code)
	out := c.conclave("watch", "--automation", "p1")
	require.Equal(t, 0, out.code)
	result := endOf(t, out)
	require.Equal(t, "main/completed decide/completed", traced(result))
	require.Equal(t, "B.", result.Final)
	require.EqualValues(t, 4, result.Usage.ModelCalls)
	require.Equal(t, 1, model.calls("model-a"))
	require.Equal(t, 4, model.calls("model-b"), "only the call under way is paid twice")
	require.Equal(t, 0, c.conclave("pull", "--verify", "p1", filepath.Join(c.home, "pulled")).code)
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	dev.ends(t)
}

// A failed scenario run continues from the step that failed.
func TestRetry_failedScenario(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {pass("It opened."), verdict("fail"), pass("Bought.")}})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	require.Equal(t, 0, c.conclave("scenario", "create", "shop", "buy", "--step", "Open: Do it.", "--step", "Buy: Do it.").code)
	c.file("shop/prd.md", "A shop.\n")
	out := c.conclave("scenario", "run", "shop", "buy", "--config", team, "--automation")
	require.Equal(t, 2, out.code)
	var result scenario.Run
	out.lastLine(t, &result)
	require.Equal(t, "pass fail", statuses(result))
	name := "buy/" + result.RunID
	out = c.conclave("result", result.RunID)
	require.Equal(t, 2, out.code, "a run ID that one scenario has is enough")
	require.Regexp(t, `buy +#1 +fail +1/2`, out.stdout)
	require.Contains(t, c.conclave("status", name).stdout, name+" · fail · ")
	out = c.conclave("retry", name)
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stderr, "scenario run "+name+" had ended (fail) and continues with everything that was paid for; `conclave watch "+name+"` follows it")
	out = c.conclave("watch", name, "--automation")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout, "buy 02 Buy: pass, flaky: attempt 2 (")
	out.lastLine(t, &result)
	require.Equal(t, "pass pass", statuses(result))
	require.Equal(t, 0, c.conclave("scenario", "watch", "shop", "buy", result.RunID).code, "its files in the project are brought up to date")
	require.Contains(t, c.conclave("scenario", "status", "shop", "buy").stdout, "pass (flaky)")
	require.Equal(t, 3, model.calls("model-a"), "the step that passed is kept")
	out = c.conclave("retry", result.RunID)
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "it passed; nothing was started")
}
