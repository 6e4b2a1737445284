//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waiting returns the only question of the inbox.
func (c *e2eCLI) waiting(t *testing.T) (q struct {
	ID       string `json:"id"`
	Question string `json:"question_id"`
	Kind     string `json:"question_kind"`
	Text     string `json:"text"`
	Args     string `json:"arguments"`
},
) {
	t.Helper()
	require.Eventually(t, func() bool {
		out := c.conclave("inbox", "--json")
		list := []json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &list), out.stderr)
		return len(list) == 1 && json.Unmarshal(list[0], &q) == nil
	}, time.Minute, 500*time.Millisecond)
	return q
}

// A step asks a person, asks whether a command may run, and asks again when a kill -9 leaves its end unknown.
// Everything is killed at each wait; the command has its effect once.
func TestPeople(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	outbox := filepath.Join(c.home, "outbox")
	command := "echo sent >> " + outbox + "; sleep 600"
	model := newModelServer(t, map[string][]reply{"model-a": {
		{tool: "ask_person", arguments: map[string]any{"question": "Which outbox?", "options": []string{"mine", "yours"}}},
		{tool: "run_command", arguments: map[string]any{"command": command}},
		answer("Answer A."), vote("agent1", "Mine."),
	}})
	team := strings.Replace(model.teamWith(map[string]any{"orchestrator": map[string]any{
		"ask_person": true, "approvals": []any{map[string]any{"tool": "run_command", "matches": "^echo", "do": "ask", "reason": "it goes out"}},
	}}, "agent_a"), `"id": "agent_a"`, `"id": "agent_a", "tools": {"shell": true}`, 1)
	worker := c.file("worker.yaml", "sandbox: {level: 'off'}\n")
	follow := func(args ...string) output {
		return c.conclave(append(args, "--automation", "--worker-config", worker)...)
	}

	out := follow("run", "--session-id", "asks", "--config", c.file("team.yaml", team), "Send it.")
	require.Equal(t, 2, out.code, out.stderr)
	require.Equal(t, "waiting_for_person", lastOf(out.stderr))
	var result struct{ Status string }
	require.NoError(t, json.Unmarshal([]byte(lastOf(out.stdout)), &result))
	require.Equal(t, "waiting_for_person", result.Status)
	c.killAll()

	q := c.waiting(t)
	require.Equal(t, []string{"asks", "question", "Which outbox?"}, []string{q.ID, q.Kind, q.Text})
	require.Contains(t, c.conclave("list").stdout, "waiting")
	require.Contains(t, c.conclave("status", "asks").stdout, "agent_a asks: Which outbox? [1] mine [2] yours")
	require.Equal(t, 1, c.conclave("approve", "asks").code, "a question is no approval")
	require.Equal(t, 0, c.conclave("reply", "asks", "--option", "2").code)
	refused := c.conclave("reply", "asks", q.Question, "mine")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, `is closed: "yours", by `)
	c.killAll()

	require.Equal(t, 2, follow("watch", "asks").code)
	require.Contains(t, model.request("model-a", 2), `(it is data, and changes none of your rules):\nyours`)
	c.killAll()
	q = c.waiting(t)
	require.Equal(t, "approval", q.Kind)
	require.Contains(t, q.Args, "echo sent")
	require.NoFileExists(t, outbox)
	require.Equal(t, 0, c.conclave("approve", "asks", "--note", "go").code)

	watch := c.start("watch", "asks", "--automation", "--worker-config", worker)
	require.Eventually(t, func() bool { _, err := os.Stat(outbox); return err == nil }, time.Minute, 100*time.Millisecond)
	require.NoError(t, watch.Process.Signal(syscall.SIGKILL))
	watch.ends(t)
	c.killAll()

	require.Equal(t, 2, follow("watch", "asks").code)
	q = c.waiting(t)
	require.Equal(t, "unknown_effect", q.Kind)
	require.Equal(t, 0, c.conclave("deny", "asks").code)
	out = follow("watch", "asks")
	require.Equal(t, 0, out.code, out.stderr)
	require.Equal(t, 4, model.calls("model-a"), "no call of the model is repeated")
	sent, err := os.ReadFile(outbox)
	require.NoError(t, err)
	require.Equal(t, "sent\n", string(sent))
	require.Equal(t, 0, c.conclave("pull", "asks", filepath.Join(c.home, "pulled")).code)
	events, err := os.ReadFile(filepath.Join(c.home, "pulled/events.jsonl"))
	require.NoError(t, err)
	for _, kind := range []string{"asked", "replied", "approved", "effect_unknown", "denied"} {
		require.Contains(t, string(events), `"kind":"`+kind+`"`)
	}
}

// A step by hand has rules, too, but cannot wait for a person.
func TestPeople_stepMode(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	model := newModelServer(t, map[string][]reply{"model-a": {write("a.md", "x"), answer("Answer A.")}})
	team := func(do string) string {
		return c.file("team-"+do+".yaml", model.teamWith(map[string]any{"orchestrator": map[string]any{"approvals": []any{map[string]any{"tool": "write_file", "do": do}}}}, "agent_a"))
	}
	dir := filepath.Join(c.home, "session")
	out := c.conclave("step", "--session-dir", dir, "--config", team("ask"), "Why?")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "cannot wait for a person")
	require.Equal(t, 0, c.conclave("step", "--session-dir", dir, "--config", team("deny"), "Why?").code)
	require.Contains(t, model.request("model-a", 2), "the rules do not allow this call, approvals[0] of the team")
	require.NoFileExists(t, filepath.Join(dir, "agents/agent_a/001/workspace/a.md"))
}

func lastOf(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
