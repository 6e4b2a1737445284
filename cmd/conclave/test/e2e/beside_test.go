//go:build e2e

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A command's worker takes steps of other sessions, too. Its end cuts no call of theirs.
func TestRunBesideAnotherSession(t *testing.T) {
	t.Parallel()
	called, over := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("It takes long.").during(func() { close(called); <-over }), vote("agent1", "the only one")},
		"model-b": {answer("Short.").during(func() { <-called }), vote("agent1", "the only one")},
	})
	c := newCLI(t)
	long, short := c.file("long.yaml", model.team("agent_a")), c.file("short.yaml", model.team("agent_b"))
	require.Equal(t, 0, c.conclave("start", "--config", long, "--session-id", "long", "Why?").code)

	run := c.start("run", "--config", short, "--session-id", "short", "Why?")
	run.prints(t, "waiting up to 30 s for 1 call of other sessions")
	require.Contains(t, run.log.String(), "Short.", "its own answer is printed first")
	close(over)
	require.Equal(t, 0, run.ends(t))

	result := c.conclave("watch", "--automation", "long").result(t, "consensus")
	require.Equal(t, "It takes long.", result.Answer)
	require.EqualValues(t, model.calls("model-a"), result.Cost.ModelCalls, "no call was cut")
	require.Zero(t, result.Cost.Repeated)
}

// A call that the end of a command cuts is made again, and counted.
func TestRunHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	called, cut := make(chan struct{}), make(chan struct{})
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Lost.").during(func() { close(called); <-cut }), answer("It takes long."), vote("agent1", "the only one")},
		"model-b": {answer("Short.").during(func() { <-called }), vote("agent1", "the only one")},
	})
	c := newCLI(t)
	long, short := c.file("long.yaml", model.team("agent_a")), c.file("short.yaml", model.team("agent_b"))
	require.Equal(t, 0, c.conclave("start", "--config", long, "--session-id", "long", "Why?").code)
	run := c.start("run", "--config", short, "--session-id", "short", "Why?")
	run.prints(t, "waiting up to 30 s for 1 call of other sessions")
	require.NoError(t, run.Process.Kill())
	close(cut)

	result := c.conclave("watch", "--automation", "long").result(t, "consensus")
	require.EqualValues(t, model.calls("model-a"), result.Cost.ModelCalls+result.Cost.Repeated, "every request is counted once")
	require.EqualValues(t, 1, result.Cost.Repeated)
}
