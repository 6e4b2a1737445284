//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/llm"
	sessionflow "conclave/workflows/session"
)

// weightsServer serves the model of .ci/weights.sh with one slot, and returns the base URL.
func weightsServer(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CONCLAVE_WEIGHTS")
	if dir == "" {
		t.Skip("CONCLAVE_WEIGHTS is not set; make models sets it")
	}
	_, port, _ := net.SplitHostPort(freeAddress(t))
	script, err := filepath.Abs("../../../../.ci/serve-weights.py")
	require.NoError(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log"))
	require.NoError(t, err)
	server := exec.CommandContext(t.Context(), "python3", script, filepath.Join(dir, "qwen2.5-coder-0.5b.gguf"), port, "8192", "1", "1") // threads of llama.cpp spin, and starve each other on a busy machine
	server.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "python"))
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the server: %s", text[max(0, len(text)-4000):])
		}
	})
	base := "http://127.0.0.1:" + port
	require.Eventually(t, func() bool {
		reply, err := http.Get(base + "/health")
		if err != nil {
			return false
		}
		reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	}, time.Minute, 100*time.Millisecond, "the model is not loaded")
	return base + "/v1"
}

// Two agents with the weights of a real model of half a billion parameters decide a question. Their
// calls take turns in the server's only slot, which has cached most of each prompt.
func TestRealWeights(t *testing.T) {
	base := weightsServer(t)
	agent := func(id string) map[string]any {
		return map[string]any{"id": id, "tools": map[string]any{"files": false}, "backend": map[string]any{
			"type": "llamacpp", "model": "qwen2.5-coder-0.5b", "base_url": base, "context_window": 8192, "max_concurrent_calls": 1,
			"params": map[string]any{"temperature": 0.5, "repeat_penalty": 1.15, "max_tokens": 300}, // without a seed, or a retry repeats the reply
		}}
	}
	team, err := json.Marshal(map[string]any{
		"agents":       []any{agent("agent_a"), agent("agent_b")},
		"orchestrator": map[string]any{"max_steps_per_agent": 4, "max_revotes": 0, "think_first": "off"}, // text of this model may not end
	})
	require.NoError(t, err)
	c := newCLI(t)
	file := c.file("team.json", string(team))
	checked := c.conclave("models", "check", "--config", file)
	require.Contains(t, checked.stdout, "8192 (configured)", checked.stderr)
	began := time.Now()
	var stdout bytes.Buffer
	cmd := c.command(binary(t, "CONCLAVE_BIN"), "run", "--automation", "--session-id", "weights", "--config", file, "What is 6 times 7?")
	cmd.Stdout, cmd.Stderr = &stdout, os.Stderr // a busy machine takes minutes
	require.NoError(t, cmd.Run(), "%s", &stdout)
	var result sessionflow.Result
	output{stdout: stdout.String()}.lastLine(t, &result)
	require.Contains(t, []string{"consensus", "plurality", "limit"}, result.Status)
	require.NotEmpty(t, result.Answer)
	require.NotEmpty(t, result.Winner)
	require.Less(t, len(result.Failed), 2, "a model of this size may lose a step, but not the session")
	t.Logf("%s: %q; %d of %d input tokens were cached, %d calls, %s", result.Status, result.Answer,
		result.Cost.CachedInputTokens, result.Cost.InputTokens, result.Cost.ModelCalls, time.Since(began).Round(time.Second))

	first := c.firstCalls("weights", 1)
	require.Greater(t, 10*first[1].CachedInputTokens, 9*first[1].InputTokens, "the second prompt of the first wave is that of the first, but for its end")
}

// firstCalls returns the usage of each agent's first model call in a step, in the order of the replies.
func (c *e2eCLI) firstCalls(session string, number int) []llm.Usage {
	c.t.Helper()
	type reply struct {
		Time  time.Time
		Kind  string
		Usage llm.Usage
	}
	var replies []reply
	for _, agent := range []string{"agent_a", "agent_b"} {
		for line := range strings.Lines(c.conclave("transcript", "--json", session, agent, strconv.Itoa(number)).stdout) {
			var r reply
			require.NoError(c.t, json.Unmarshal([]byte(line), &r))
			if r.Kind == "reply" {
				replies = append(replies, r)
				break
			}
		}
	}
	require.Len(c.t, replies, 2)
	slices.SortFunc(replies, func(a, b reply) int { return a.Time.Compare(b.Time) })
	c.t.Logf("step %d: %d of %d, then %d of %d input tokens were cached", number,
		replies[0].Usage.CachedInputTokens, replies[0].Usage.InputTokens, replies[1].Usage.CachedInputTokens, replies[1].Usage.InputTokens)
	return []llm.Usage{replies[0].Usage, replies[1].Usage}
}
