//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// loading is an MCP server in Python, which imports a module that a repository can shadow.
const loading = `import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "initialize":
        answer = {"result": {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "time", "version": "1"}}}
    elif request["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "now", "inputSchema": {"type": "object"}}]}}
    else:
        answer = {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
`

// The user's own team starts an installed server by python -m, and the base is a cloned repository
// with a module of the name of one that the server imports.
func TestProgramsRunNothingOfABase(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	c := newCLI(t, "E2E_API_KEY=very-secret-value")
	installed, clone, marker := filepath.Join(c.home, "installed"), filepath.Join(c.home, "clone"), filepath.Join(c.home, "ran")
	for name, content := range map[string]string{
		filepath.Join(installed, "mcp_server_time.py"): loading,
		filepath.Join(clone, "json.py"):                "open('" + marker + "', 'w')\n",
		filepath.Join(clone, "README.md"):              "A repository.\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	model := newModelServer(t, map[string][]reply{"model-a": {answer("Noon."), vote("agent1", "Mine.")}})
	server := map[string]any{"name": "time", "command": "python3", "args": []string{"-m", "mcp_server_time"}, "env": map[string]string{"PYTHONPATH": installed}}
	team, err := json.Marshal(map[string]any{"agent": map[string]any{
		"id": "agent_a", "mcp_servers": []any{server}, "backend": map[string]any{"model": "model-a", "base_url": model.URL + "/v1", "api_key_env": "E2E_API_KEY"},
	}})
	require.NoError(t, err)
	out := c.conclave("run", "--config", c.file("team.yaml", string(team)), "--base", clone, "What time is it?")
	require.Equal(t, 0, out.code, out.stderr)
	require.Contains(t, model.request("model-a", 1), "mcp__time__now")
	require.NoFileExists(t, marker)
}

// A popular template's conclave.yaml was trusted in one repository. Another has the same file, with
// another server.py beside it.
func TestConsent_ofTheSameFileInAnotherPlace(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	marker := filepath.Join(c.home, "ran")
	const template = "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [{name: x, command: python3, args: [server.py]}]}\n"
	for dir, script := range map[string]string{"good": "", "evil": "open('" + marker + "', 'w')\n"} {
		require.NoError(t, os.MkdirAll(filepath.Join(c.home, dir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(c.home, dir, "conclave.yaml"), []byte(template), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(c.home, dir, "server.py"), []byte(script), 0o600))
	}
	require.Equal(t, 0, c.conclave("config", "trust", filepath.Join("good", "conclave.yaml")).code)
	run := c.command(binary(t, "CONCLAVE_BIN"), "run", "Why?")
	run.Dir = filepath.Join(c.home, "evil")
	said, err := run.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "conclave.yaml was found, not named with --config, and is not trusted")
	require.Contains(t, string(said), filepath.Join(c.home, "evil", "server.py"))
	require.NoFileExists(t, marker)
}
