package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/mcp"
)

// timeServer is an installed MCP server that is started by `python3 -m`, as the instructions of many
// servers say. Python looks for modules in the working directory first.
const timeServer = `import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    if request["method"] == "initialize":
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "time", "version": "1"}}
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": "now", "inputSchema": {"type": "object"}}]}
    elif request["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "noon"}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
`

// A repository that somebody cloned and gave to a session as its base has a json.py.
func TestOpen_runsNothingOfTheWorkspace(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	installed, workspace := t.TempDir(), t.TempDir()
	marker := filepath.Join(t.TempDir(), "ran")
	require.NoError(t, os.WriteFile(filepath.Join(installed, "mcp_server_time.py"), []byte(timeServer), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "json.py"), fmt.Appendf(nil, "open(%q, 'w')\n", marker), 0o600))
	for _, shared := range []bool{false, true} {
		pool := &mcp.Pool{}
		t.Cleanup(pool.Close)
		c, err := mcp.Open(t.Context(), []mcp.Server{{
			Name: "time", Command: "python3", Args: []string{"-m", "mcp_server_time"}, Env: map[string]string{"PYTHONPATH": installed}, Shared: shared,
		}}, mcp.Place{Dir: workspace, Pool: pool, Run: "run"})
		require.NoFileExists(t, marker)
		require.NoError(t, err)
		require.Equal(t, "noon", run(t, c, "mcp__time__now", "{}").Text)
		require.NoError(t, c.Close())
	}
}

// What a server wrote to its working directory is gone when it starts again, so that an agent
// cannot place a module there.
func TestOpen_everyStartIsInAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		s := fake(t, "fake", "ordinary")
		s.Shared = shared
		pool := &mcp.Pool{}
		t.Cleanup(pool.Close)
		workspace := t.TempDir()
		c, err := mcp.Open(t.Context(), []mcp.Server{s}, mcp.Place{Dir: workspace, Pool: pool, Run: "run"})
		require.NoError(t, err)
		for range 2 {
			dir := run(t, c, "mcp__fake__cwd", "{}").Text
			require.NotEqual(t, workspace, dir)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "json.py"), nil, 0o600))
			run(t, c, "mcp__fake__crash", "{}")
		}
		require.NoError(t, c.Close())
	}
}

// A server that asks for roots takes relative names of files from the first, and may take the roots
// in place of the directories of its command line.
func TestOpen_offersRoots(t *testing.T) {
	t.Parallel()
	docs, files := t.TempDir(), filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.Mkdir(files, 0o700))
	file := filepath.Join(docs, "a.txt")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s := fake(t, "fake", "unprobed") // a protocol that has roots
	s.Args = []string{docs, ".", "--also=" + files, "/no/such/directory", file, "--root"}
	workspace := t.TempDir()
	roots := strings.Split(run(t, open(t, workspace, s), "mcp__fake__roots", "{}").Text, "\n")
	require.Equal(t, []string{"file://" + workspace, "file://" + docs, "file://" + strings.ReplaceAll(files, " ", "%20")}, roots)
}

// A server learns the workspace from a variable, and from placeholders in its arguments and its
// environment.
func TestOpen_namesTheWorkspace(t *testing.T) {
	t.Parallel()
	s := fake(t, "fake", "ordinary")
	s.Args = []string{"--output=${CONCLAVE_WORKSPACE}/out", ".", "--dir=.", "./x", "a.", "$CONCLAVE_WORKSPACE"}
	s.Env["FILES"] = "${CONCLAVE_WORKSPACE}:/etc"
	told := func(c *mcp.Client) (args []string, variables string) {
		return strings.Split(run(t, c, "mcp__fake__given", "{}").Text, "\n"), run(t, c, "mcp__fake__env", "{}").Text + "\n"
	}
	workspace := t.TempDir()
	args, variables := told(open(t, workspace, s))
	require.Equal(t, []string{"--output=" + workspace + "/out", workspace, "--dir=" + workspace, "./x", "a.", "$CONCLAVE_WORKSPACE"}, args)
	require.Contains(t, variables, "CONCLAVE_WORKSPACE="+workspace+"\n")
	require.Contains(t, variables, "FILES="+workspace+":/etc\n")

	// Steps that share a server have different workspaces: it has a directory of its own.
	s.Shared = true
	pool := &mcp.Pool{}
	t.Cleanup(pool.Close)
	c, err := mcp.Open(t.Context(), []mcp.Server{s}, mcp.Place{Dir: workspace, Pool: pool, Run: "run"})
	require.NoError(t, err)
	args, variables = told(c)
	require.Len(t, pool.Dirs("run"), 1)
	require.Equal(t, pool.Dirs("run")[0], args[1])
	require.NotEqual(t, workspace, args[1])
	require.Contains(t, variables, "CONCLAVE_WORKSPACE="+args[1]+"\n")
	require.NoError(t, os.WriteFile(filepath.Join(args[1], "page.png"), nil, 0o600))
	run(t, c, "mcp__fake__crash", "{}")
	require.FileExists(t, filepath.Join(args[1], "page.png"), "it stays as long as the server")
	require.NoError(t, c.Close())
}
