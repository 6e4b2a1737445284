//go:build e2e

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A team of members that speak Messages, Responses and Chat Completions decides. A worker that dies in the middle of a
// call goes on with the journal, and the thoughts of the calls before it are sent back as they were.
func TestWires(t *testing.T) {
	t.Parallel()
	asked, hold := make(chan struct{}), make(chan struct{})
	script := threeRounds()
	script["model-a"] = append([]reply{script["model-a"][0], answer("Lost.").during(func() { close(asked); <-hold })}, script["model-a"][1:]...)
	model := newModelServer(t, script)
	t.Cleanup(func() { close(hold) })
	c := newCLI(t)
	team := strings.Replace(model.team("agent_a", "agent_b", "agent_c"), `"model": "model-a"`, `"wire": "messages", "params": {"max_tokens": 900}, "model": "model-a"`, 1)
	team = strings.Replace(team, `"model": "model-b"`, `"wire": "responses", "model": "model-b"`, 1)
	file := c.file("team.yaml", team)
	run := c.start("run", "--automation", "--session-id", "wires", "--config", file, "Which plan?")
	<-asked
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	out := c.conclave("watch", "--automation", "wires")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, c.conclave("status", "wires", "--json").stdout, `"status": "consensus"`)
	require.Equal(t, 5, model.calls("model-a"), "only the call that was cut is made again")
	again := model.request("model-a", 3)
	require.Contains(t, again, `"thinking":"Hm."`)
	require.Contains(t, again, `"signature":"sig1"`)
	require.Contains(t, again, `"max_tokens":900`)
	require.Contains(t, model.request("model-b", 1), `"reasoning.encrypted_content"`)
	require.Contains(t, model.request("model-c", 1), `"parameters"`)

	refused := c.conclave("run", "--config", c.file("seed.yaml", strings.Replace(team, `"max_tokens": 900`, `"seed": 1`, 1)), "Which plan?")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "seed in params of model model-a has no counterpart in the form of messages")
}
