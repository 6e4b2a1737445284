//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A conversation goes on: the next session has the turns and the team of the one before, and all
// commands name it.
func TestContinue(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Two moons."), vote("agent1", "Right."), answer("Phobos and Deimos."), vote("agent1", "Right.")},
	})
	c := newCLI(t)
	team := c.file("team.yaml", model.team("agent_a"))
	out := c.conclave("run", "--config", team, "--session-id", "first", "--output-file", "answer.md", "How many moons has Mars?")
	require.Equal(t, 0, out.code, out.stderr)
	text, err := os.ReadFile(filepath.Join(c.home, "answer.md"))
	require.NoError(t, err)
	require.Equal(t, "Two moons.", string(text))
	out = c.conclave("run", "--continue", "first", "--session-id", "second", "What are they called?")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stdout, "Phobos and Deimos.")
	for n := 3; n <= 4; n++ {
		require.Contains(t, model.request("model-a", n), "How many moons has Mars?")
		require.Contains(t, model.request("model-a", n), "Two moons.")
	}
	require.NotContains(t, model.request("model-a", 1), "Two moons.")

	require.Contains(t, c.conclave("list").stdout, "continues first: What are they called?")
	require.Contains(t, c.conclave("status", "second").stdout, "continues first")
	var state struct{ Continues string }
	c.conclave("status", "--automation", "second").lastLine(t, &state)
	require.Equal(t, "first", state.Continues)
	out = c.conclave("pull", "--verify", "second", "copy")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, out.stderr, "it continues session first")
	require.FileExists(t, filepath.Join(c.home, "copy", "history.json"))

	require.Equal(t, 0, c.conclave("start", "--offline", "--session-id", "open", "Why?").code)
	out = c.conclave("run", "--continue", "open", "And then?")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "session open cannot be continued")
}
