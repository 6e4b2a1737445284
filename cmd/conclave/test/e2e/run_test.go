//go:build e2e

package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	sessionflow "conclave/workflows/session"
)

// The protocol's example session, over HTTP, on the embedded stack.
func TestThreeRounds(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, threeRounds())
	c := newCLI(t)
	config := c.file("team.yaml", model.team("agent_a", "agent_b", "agent_c"))

	out := c.conclave("run", "--automation", "--config", config, "--session-id", "three-rounds", "Which of us is right?")
	require.Equal(t, 0, out.code)
	result := out.result(t, "consensus")
	require.Equal(t, "agent_c", result.Winner)
	require.Equal(t, "agent3.2", result.WinnerLabel)
	require.Equal(t, "Answer C, improved.", result.Answer)
	require.Equal(t, map[string]int{"agent_c": 3}, result.Votes)
	require.Equal(t, 3, result.Rounds)
	require.Equal(t, int64(10), result.Cost.ModelCalls)
	require.NotContains(t, model.prompts(), "agent_a", "models see labels, never agent IDs")

	dir := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "three-rounds", dir).code)
	for _, file := range []string{
		"session.json", "config.json", "status.json", "events.jsonl",
		"agents/agent_a/001/answer.json", "agents/agent_a/001/workspace/plan.md", "agents/agent_a/001/transcript.jsonl",
		"agents/agent_a/002/vote.json", "agents/agent_a/003/vote.json", "agents/agent_a/last_action.json",
		"agents/agent_c/002/answer.json", "agents/agent_c/003/vote.json",
		"final/agent_c/answer.json", "ledger/000009.json",
	} {
		require.FileExists(t, filepath.Join(dir, file))
	}
	var v artifact.Vote
	readFile(t, filepath.Join(dir, "agents/agent_b/002/vote.json"), &v)
	require.Equal(t, map[string]int{"agent_a": 1, "agent_b": 1, "agent_c": 1}, v.SeenSteps)

	plan, err := os.ReadFile(filepath.Join(dir, "agents/agent_a/001/workspace/plan.md"))
	require.NoError(t, err)
	require.Equal(t, string(plan), c.conclave("files", "three-rounds", "agent1.1", "plan.md").stdout)
	require.Equal(t, "plan.md\n", c.conclave("diff", "three-rounds", "agent1.1", "--name-only").stdout)
	patched := filepath.Join(c.home, "patched")
	require.NoError(t, os.Mkdir(patched, 0o700))
	patch := c.file("change.patch", c.conclave("diff", "three-rounds", "agent1.1").stdout)
	git := exec.Command("git", "apply", patch)
	git.Dir = patched
	require.NoError(t, git.Run())
	require.Contains(t, c.conclave("apply", "three-rounds", "agent1.1", "--to", patched).stdout, "already has the change of agent1.1")
	require.NoError(t, os.WriteFile(filepath.Join(patched, "plan.md"), []byte("mine"), 0o600))
	require.Equal(t, 1, c.conclave("apply", "three-rounds", "agent1.1", "--to", patched).code)
}

// The step waits during rate limits and overload.
func TestModelFailsAndRecovers(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {fails(http.StatusTooManyRequests), fails(http.StatusServiceUnavailable), answer("At last."), fails(http.StatusInternalServerError), vote("agent1", "Only one.")},
	})
	c := newCLI(t)
	out := c.conclave("run", "--automation", "--config", c.file("team.yaml", model.team("agent_a")), "Will you recover?")
	require.Equal(t, 0, out.code)
	result := out.result(t, "consensus")
	require.Equal(t, "At last.", result.Answer)
	require.Equal(t, 5, model.calls("model-a"))
}

// A permanent error of a model fails its agent; the others decide.
func TestFailedAgentDoesNotFailTheSession(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{
		"model-a": {answer("Answer A."), vote("agent1", "The only one.")},
		"model-b": {fails(http.StatusUnauthorized)},
	})
	c := newCLI(t)
	out := c.conclave("run", "--automation", "--config", c.file("team.yaml", model.team("agent_a", "agent_b")), "Who is left?")
	require.Equal(t, 0, out.code)
	var result sessionflow.Result
	out.lastLine(t, &result)
	require.Equal(t, "agent_a", result.Winner)
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"model-a": {fails(http.StatusUnauthorized)}})
	c := newCLI(t)
	out := c.conclave("run", "--automation", "--config", c.file("team.yaml", model.team("agent_a")), "Anyone?")
	require.Equal(t, 2, out.code)
	out.result(t, "failed")
	require.Contains(t, out.stdout+out.stderr, "agent_a", "the agent's error is printed")
}

// The process is killed between two waves: the next command that runs steps continues the session,
// and no finished step runs again.
func TestKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	script := threeRounds()
	killed := make(chan struct{})
	atWork := make(chan struct{})
	script["model-c"][1] = script["model-c"][1].during(func() { close(atWork); <-killed })
	// The reply to the killed process is requested once more.
	script["model-c"] = append(script["model-c"][:2:2], script["model-c"][1:]...)
	script["model-c"][2] = answer("Answer C, improved.")
	model := newModelServer(t, script)
	c := newCLI(t)
	config := c.file("team.yaml", model.team("agent_a", "agent_b", "agent_c"))

	run := c.start("run", "--automation", "--config", config, "--session-id", "killed", "Which of us is right?")
	<-atWork
	require.NoError(t, run.Process.Kill())
	run.ends(t)
	close(killed)
	c.gone()

	watch := c.conclave("watch", "killed", "--automation")
	require.Equal(t, 0, watch.code)
	var result sessionflow.Result
	watch.lastLine(t, &result)
	require.Equal(t, "consensus", result.Status)
	require.Equal(t, "agent_c", result.Winner)
	require.LessOrEqual(t, model.calls("model-a"), 5, "a: plan, answer, two votes, and at most one call twice")
	require.LessOrEqual(t, model.calls("model-b"), 4)
	require.Equal(t, 4, model.calls("model-c"))
}

// Ctrl-C loses no work and prints the command that follows the session.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	atWork := make(chan struct{})
	release := make(chan struct{})
	model := newModelServer(t, map[string][]reply{
		"model-a": {
			answer("Answer A.").during(func() { close(atWork); <-release }),
			answer("Answer A."), vote("agent1", "Mine."),
		},
	})
	c := newCLI(t)
	run := c.start("run", "--automation", "--config", c.file("team.yaml", model.team("agent_a")), "--session-id", "stopped", "A question?")
	<-atWork
	require.NoError(t, run.Process.Signal(syscall.SIGINT))
	require.Equal(t, 4, run.ends(t))
	require.Contains(t, run.log.String(), "conclave watch stopped")
	close(release)
	c.gone()

	require.Contains(t, c.conclave("list", "--json").stdout, `"stopped"`)
	require.Equal(t, 0, c.conclave("watch", "stopped", "--automation").code)
	require.Equal(t, 0, c.conclave("result", "stopped").code)
}

// The first command of the README.
func TestOffline(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	out := c.conclave("run", "--offline", "What makes a good first issue?")
	require.Equal(t, 0, out.code)
	require.Contains(t, out.stdout+out.stderr, "offline")
	c.gone()
	entries, err := os.ReadDir(c.home)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the data directory is left in the home: %v", entries)
}

func TestTwoCommandsShareAStack(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dev := c.start("dev", "--offline")
	dev.prints(t, "Ctrl-C stops")
	first := c.start("run", "--offline", "--automation", "--session-id", "one", "The first question?")
	second := c.conclave("run", "--offline", "--automation", "--session-id", "two", "The second question?")
	require.Equal(t, 0, second.code)
	require.Equal(t, 0, first.ends(t))
	require.NoError(t, dev.Process.Signal(syscall.SIGINT))
	dev.ends(t)
}
