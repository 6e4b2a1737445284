//go:build e2e

package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/stage"
)

// A newcomer names a model, and has no file. The file of a cloned repository is not read.
func TestModelFlag(t *testing.T) {
	t.Parallel()
	model := newModelServer(t, map[string][]reply{"llama3.2:3b": {
		answer("Answer."), answer("Answer too."), answer("Answer, at last."), vote("agent1", "Clear."), vote("agent1", "Clear."), vote("agent1", "Clear."),
	}})
	c := newCLI(t, "OPENAI_BASE_URL="+model.URL+"/v1")
	c.file("conclave.yaml", "agents: [{id: agent_a, backend: {model: m}, mcp_servers: [{name: x, command: evil}]}]\n")
	out := c.conclave("run", "--automation", "--session-id", "flagged", "--model", "openai:llama3.2:3b", "Why?")
	require.Equal(t, 0, out.code)
	require.Equal(t, "agent_a", out.result(t, "consensus").Winner)
	require.Equal(t, 6, model.calls("llama3.2:3b"))
	require.Equal(t, map[string]int{"": 6}, model.keys, "no key is sent to an address of one's own")
	status := c.conclave("status", "flagged")
	require.Contains(t, status.stdout, "agent_c")
}

// leaks returns the files below a directory that contain a text.
func leaks(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // the stack removes files meanwhile
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(text)) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// The key in a trusted .env reaches the model's server, and nothing else: no child process, no artifact,
// no log. Nothing else in that file is read.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	own, err := os.Executable()
	require.NoError(t, err)
	const secret, other = "very-secret-value", "another-secret-value"
	var holders []string // processes of this machine whose environment has the key
	model := newModelServer(t, map[string][]reply{"model-a": {
		runs(`echo "variables: $(cat /proc/*/environ 2>/dev/null | grep -c E2E_)"; env`).during(func() {
			environments, _ := filepath.Glob("/proc/[0-9]*/environ")
			for _, name := range environments {
				if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(secret)) {
					holders = append(holders, name)
				}
			}
		}),
		{tool: "mcp__painter__draw", arguments: map[string]any{"name": "drawing.png"}},
		answer("The key is " + secret + "."), vote("agent1", "Mine, with "+secret+"."),
	}})
	c := newCLI(t)
	c.file(".env", "E2E_API_KEY='"+secret+"' # of the lab\nOPENAI_BASE_URL=http://127.0.0.1:1/v1\nE2E_OTHER_KEY="+other+"\nHTTP_PROXY=http://127.0.0.1:1\n")
	team := c.file("team.yaml", model.armed(map[string]any{"name": "painter", "command": own, "args": []string{serve}}))

	refused := c.conclave("run", "--config", team, "Why?")
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "E2E_API_KEY is not set; it holds the API key of agent_a.\n.env was found and is not trusted; it would\n  take the key in E2E_API_KEY for the team\n")
	require.Zero(t, model.calls("model-a"))
	require.NoDirExists(t, filepath.Join(c.home, ".local"), "nothing is started")

	term := stage.NewTerminal(t)
	asked := c.onTerminal(term, "run", "--config", team, "--session-id", "keyed", "Why?")
	var stdout bytes.Buffer
	asked.Stdout = &stdout
	require.NoError(t, asked.Start())
	term.Type("Trust it until it changes? [y/N] ", "y\n")
	require.NoError(t, asked.Wait(), term.Shown())
	require.Contains(t, stdout.String(), "The key is [redacted].")
	require.Equal(t, map[string]int{"Bearer " + secret: 4}, model.keys)
	require.Empty(t, holders)
	seen := model.request("model-a", 3)
	require.Contains(t, seen, "variables: 0")
	require.Contains(t, seen, "drawn with 0 variables of the worker")

	pulled := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "keyed", pulled).code)
	require.Equal(t, 1, c.conclave("serve", "--config", team).code, "it is for one's own sessions")
	c.gone()
	for _, text := range []string{secret, other} {
		require.Equal(t, []string{filepath.Join(c.home, ".env")}, leaks(t, c.home, text))
		require.NotContains(t, stdout.String()+term.Shown(), text)
	}
}
