//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// one is the team file of a step: one agent with this server.
func (m *modelServer) one(id, more string) string {
	return fmt.Sprintf("agent: {id: %s, backend: {model: %s, base_url: %q}}\n%s\n", id, strings.Replace(id, "agent_", "model-", 1), m.URL+"/v1", more)
}

func (c *e2eCLI) stepLine(config string, more ...string) []string {
	line := []string{"step", "--automation", "--session-dir", filepath.Join(c.home, "s"), "--config", config}
	return append(append(line, more...), "Which of us is right?")
}

// The example brings three agents to a consensus in a short script.
func TestStepModeExample(t *testing.T) {
	t.Parallel()
	c := newCLI(t, "CONCLAVE="+binary(t, "CONCLAVE_BIN"))
	example, err := filepath.Abs("../../../../examples/step-mode/consensus.sh")
	require.NoError(t, err)
	script, err := os.ReadFile(example)
	require.NoError(t, err)
	require.Less(t, strings.Count(string(script), "\n"), 60)

	dir := filepath.Join(c.home, "s")
	out := c.run("/bin/sh", example, dir, "Tabs or spaces?", "--offline")
	require.Equal(t, 0, out.code)
	var answer artifact.Answer
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &answer))
	require.Contains(t, out.stderr, "consensus: "+answer.AgentID)
	require.Contains(t, out.stderr, "offline")
	agents, err := os.ReadDir(filepath.Join(dir, "agents"))
	require.NoError(t, err)
	require.Len(t, agents, 3)
	require.Equal(t, 0, c.conclave("step", "--check", "--session-dir", dir).code)

	again := c.run("/bin/sh", example, dir, "Tabs or spaces?", "--offline")
	require.Equal(t, 0, again.code)
	require.Equal(t, out.stdout, again.stdout, "the decision does not change")
	require.NotContains(t, again.stderr, "round")
}

// A killed step leaves its journal, from which the next launch continues. A step that is asked to
// end does so immediately.
func TestStepModeKilled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGKILL, -1}, {syscall.SIGTERM, 4}, {syscall.SIGINT, 4}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			t.Parallel()
			atWork, release := make(chan struct{}), make(chan struct{})
			model := newModelServer(t, map[string][]reply{"model-a": {
				write("plan.md", "# Plan\n"), answer("Cut off.").during(func() { close(atWork); <-release }), answer("Done."),
			}})
			c := newCLI(t)
			config := c.file("a.yaml", model.one("agent_a", ""))
			first := c.start(c.stepLine(config)...)
			<-atWork
			check := c.conclave("step", "--check", "--session-dir", filepath.Join(c.home, "s"))
			require.Equal(t, 2, check.code)
			require.Contains(t, check.stdout, `"running": true`)
			require.NoError(t, first.Process.Signal(tt.signal))
			require.Equal(t, tt.code, first.ends(t))
			close(release)
			check = c.conclave("step", "--check", "--session-dir", filepath.Join(c.home, "s"))
			require.Contains(t, check.stdout, `"running": false`)
			require.Contains(t, check.stdout, `"unfinished": [`)

			out := c.conclave(c.stepLine(config)...)
			require.Equal(t, 0, out.code)
			var last artifact.LastAction
			out.lastLine(t, &last)
			require.Equal(t, 1, last.StepNumber)
			require.Equal(t, "Done.", *last.AnswerText)
			require.Equal(t, 3, model.calls("model-a"), "the call that was cut off is made again, no other")
			require.FileExists(t, filepath.Join(c.home, "s/agents/agent_a/001/workspace/plan.md"))
			require.NoDirExists(t, filepath.Join(c.home, "s/agents/agent_a/002"))
		})
	}
}

// Eight concurrent launches of one agent are eight steps. After a kill, eight new launches each
// continue a different one.
func TestStepModeParallel(t *testing.T) {
	t.Parallel()
	const launches = 8
	// No step gets its n-th reply before all steps have requested theirs.
	together := func() func() {
		var all sync.WaitGroup
		all.Add(launches)
		return func() { all.Done(); all.Wait() }
	}
	atWork, release := together(), make(chan struct{})
	begun, goneOn := together(), together()
	answering := make(chan struct{}, launches)
	var script []reply
	for range launches {
		script = append(script, write("plan.md", "# Plan\n").during(begun))
	}
	for range launches {
		script = append(script, answer("Cut off.").during(func() { atWork(); answering <- struct{}{}; <-release }))
	}
	for range launches {
		script = append(script, answer("Mine.").during(goneOn))
	}
	model := newModelServer(t, map[string][]reply{"model-a": script})
	c := newCLI(t)
	line := c.stepLine(c.file("a.yaml", model.one("agent_a", "")))
	launch := func() (all []*background) {
		for range launches {
			all = append(all, c.start(line...))
		}
		return all
	}
	killed := launch()
	for range launches {
		<-answering
	}
	for _, b := range killed {
		require.NoError(t, b.Process.Kill())
		b.ends(t)
	}
	close(release)
	for _, b := range launch() {
		require.Equal(t, 0, b.ends(t), b.log.String())
	}
	require.Equal(t, 3*launches, model.calls("model-a"))
	tokens := map[string]bool{}
	for n := 1; n <= launches; n++ {
		var commit artifact.Commit
		readFile(t, filepath.Join(c.home, fmt.Sprintf("s/agents/agent_a/%03d/action.json", n)), &commit)
		tokens[commit.Token] = true
		require.FileExists(t, filepath.Join(c.home, fmt.Sprintf("s/agents/agent_a/%03d/workspace/plan.md", n)))
	}
	require.Len(t, tokens, launches)
	require.NoDirExists(t, filepath.Join(c.home, "s/agents/agent_a/009"))
}
