//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// The files of a step that ended without an action are pulled and named, and the retried agent
// begins with them.
func TestFilesOfAStepWithoutAction(t *testing.T) {
	t.Parallel()
	nonsense := vote("agent9", "Nobody.")
	model := newModelServer(t, map[string][]reply{
		"model-a": {write("draft/plan.md", "half of it"), nonsense, nonsense, nonsense, read("draft/plan.md"), answer("Answer A."), vote("agent1", "Mine.")},
	})
	c := newCLI(t)
	team := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"on_agent_failure": "park"}), "agent_a"))
	stack := c.start("dev")
	stack.prints(t, "Temporal")
	require.Equal(t, 0, c.conclave("start", "--session-id", "partial", "--config", team, "Who?").code)
	out := c.conclave("watch", "--automation", "partial")
	require.Equal(t, 2, out.code, out.stderr)

	dir := filepath.Join(c.home, "pulled")
	out = c.conclave("pull", "--verify", "partial", dir)
	require.Equal(t, 0, out.code, out.stderr)
	content, err := os.ReadFile(filepath.Join(dir, "agents/agent_a/001/partial/draft/plan.md"))
	require.NoError(t, err)
	require.Equal(t, "half of it", string(content))
	store, err := artifact.NewDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	last, err := artifact.ReadJSON[artifact.LastAction](t.Context(), store, "agents/agent_a/last_action.json")
	require.NoError(t, err)
	require.Equal(t, "NoAction", last.Error.Type)
	require.Equal(t, filepath.Join(dir, "agents/agent_a/001/partial"), *last.PartialPath)

	require.Equal(t, 0, c.conclave("retry", "partial").code)
	out = c.conclave("watch", "--automation", "partial")
	require.Equal(t, 0, out.code, out.stderr)
	out.result(t, "consensus")
	require.Contains(t, model.request("model-a", 6), "half of it")
	require.Equal(t, 0, c.conclave("pull", "--verify", "partial", dir).code)
	require.FileExists(t, filepath.Join(dir, "agents/agent_a/002/workspace/draft/plan.md"))
}

// The limit of a step's model calls is a key, and the model is told before it is reached.
func TestModelCallLimit(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {list(), list(), list()}})
	c := newCLI(t)
	team := c.file("team.yaml", model.teamWith(orchestrator(map[string]any{"max_model_calls_per_step": 3}), "agent_a"))
	out := c.conclave("run", "--automation", "--session-id", "limit", "--config", team, "Who?")
	require.Equal(t, 2, out.code, out.stderr)
	result := out.result(t, "failed")
	require.Contains(t, result.Error.Message, "no action after 3 model calls")
	require.NotContains(t, model.request("model-a", 2), "You have made")
	require.Contains(t, model.request("model-a", 3), "You have made 2 of the 3 model calls")
	require.Equal(t, 3, model.calls("model-a"))
}

// A step that is cancelled in a batch of calls keeps the file that the first one has written, and the
// result of that call.
func TestFilesOfACancelledBatch(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := c.file("p.yaml", `start: work
agents: [{id: a, backend: {model: m}, tools: {shell: true}}]
steps:
  - {name: work, kind: tools, calls: [{tool: write_file, args: {path: a.txt, content: "kept"}}, {tool: run_command, args: {command: sleep 120}}]}
`)
	run := c.start("pipeline", "run", "--offline", "--automation", "--id", "batch", file, "Work")
	require.Eventually(t, func() bool {
		return strings.Contains(run.log.String(), "no shell") || strings.Contains(c.conclave("status", "batch").stdout, "run_command")
	}, time.Minute, 100*time.Millisecond)
	confined(t, output{code: 1, stderr: run.log.String()})
	require.Equal(t, 0, c.conclave("cancel", "batch").code)
	run.ends(t)

	dir := filepath.Join(c.home, "pulled")
	out := c.conclave("pull", "--verify", "batch", dir)
	require.Equal(t, 0, out.code, out.stderr)
	content, err := os.ReadFile(filepath.Join(dir, "steps/001-work/partial/a.txt"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(content))
	out = c.conclave("transcript", "--json", "batch", "work", "last")
	require.Equal(t, 0, out.code, out.stderr)
	lines := strings.Split(strings.TrimSpace(out.stdout), "\n")
	require.Contains(t, lines[len(lines)-1], `"kind":"results"`)
	require.Contains(t, lines[len(lines)-1], "a.txt")
}
