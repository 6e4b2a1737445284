//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// serve is the argument that makes this program an MCP server.
const serve = "serve-mcp"

// painting is the arguments of its tool.
type painting struct {
	Name string `json:"name"`
}

// draw is a server with one tool, which writes a file to the workspace and returns a text and an
// image.
func draw() error {
	server := sdk.NewServer(&sdk.Implementation{Name: "painter", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "draw"}, func(_ context.Context, _ *sdk.CallToolRequest, in painting) (*sdk.CallToolResult, any, error) {
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(filepath.Join(os.Getenv("CONCLAVE_WORKSPACE"), in.Name), picture.Bytes(), 0o600); err != nil {
			return nil, nil, err
		}
		text := fmt.Sprintf("drawn with %d variables of the worker and the pen %s", strings.Count(strings.Join(os.Environ(), "\n"), "E2E_"), os.Getenv("PEN"))
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}, &sdk.ImageContent{Data: picture.Bytes(), MIMEType: "image/png"}}}, nil, nil
	})
	return server.Run(context.Background(), &sdk.StdioTransport{})
}

// sandboxed skips the test on systems without a sandbox.
func sandboxed(t *testing.T) {
	t.Helper()
	if host := sandbox.Probe(t.Context()); host.Level != sandbox.Full {
		t.Skipf("this host gives sandbox level %s: %s", host.Level, strings.Join(host.Missing, "; "))
	}
}

func runs(command string) reply {
	return reply{tool: "run_command", arguments: map[string]any{"command": command}}
}

// armed is a team file of one agent with a shell and MCP servers.
func (m *modelServer) armed(servers ...any) string {
	m.t.Helper()
	data, err := json.Marshal(map[string]any{"agent": map[string]any{
		"id": "agent_a", "tools": map[string]any{"shell": true}, "mcp_servers": servers,
		"backend": map[string]any{"model": "model-a", "base_url": m.URL + "/v1", "api_key_env": "E2E_API_KEY"},
	}})
	require.NoError(m.t, err)
	return string(data)
}

// An agent works with a shell and MCP servers, and reaches nothing else.
func TestShellAndServers(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	own, err := os.Executable()
	require.NoError(t, err)
	c := newCLI(t, "E2E_API_KEY=very-secret-value", "E2E_PEN=quill")
	c.file("diary.txt", "dear diary")
	servers := []any{map[string]any{"name": "painter", "command": own, "args": []string{serve}, "env": map[string]string{"PEN": "${E2E_PEN}"}}}
	var second []reply // of the step that votes
	script := []reply{
		runs(`python3 -c 'open("made.txt", "w").write("made by python")' || printf 'made by sh' > made.txt
			git init -q repo && cd repo && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m first && git log --oneline | wc -l
			echo "variables: $(cat /proc/*/environ /proc/[0-9]*/task/*/environ 2>/dev/null | grep -c E2E_)"
			cat ` + filepath.Join(c.home, "diary.txt") + ` ; ls -A / | tr '\n' ' '`),
		{tool: "mcp__painter__draw", arguments: map[string]any{"name": "drawing.png"}},
		runs("ls; wc -c < drawing.png"),
	}
	if npm := os.Getenv("CONCLAVE_NPM"); npm != "" {
		node, err := exec.LookPath("node")
		require.NoError(t, err)
		servers = append(servers, map[string]any{
			"name": "everything", "type": "stdio", "command": node, "args": []string{filepath.Join(npm, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"},
			"scope": "session", "allowed_tools": []string{"echo", "get-env", "get-sum"}, "exclude_tools": []string{"get-sum"},
		})
		script = append(script, reply{tool: "mcp__everything__echo", arguments: map[string]any{"message": "from afar"}}, reply{tool: "mcp__everything__get-env", arguments: map[string]any{}})
		second = script[len(script)-1:]
	}
	replies := slices.Concat(script, []reply{answer("All done.")}, second, []reply{vote("agent1", "Mine.")})
	model := newModelServer(t, map[string][]reply{"model-a": replies})
	require.Equal(t, 0, c.conclave("run", "--session-id", "tools", "--config", c.file("team.yaml", model.armed(servers...)), "What can you do?").code)

	seen := model.request("model-a", len(script)+1)
	for _, text := range []string{`exit code `, `variables: 0`, `drawn with 0 variables of the worker and the pen`, `made.txt`, `"image_url"`, `data:image/png;base64,`} {
		require.Contains(t, seen, text)
	}
	require.Contains(t, model.request("model-a", 2), "diary.txt: No such file")
	for _, secret := range []string{"very-secret-value", "dear diary"} {
		require.NotContains(t, model.prompts(), secret)
	}
	if len(servers) > 1 {
		require.Contains(t, seen, "Echo: from afar")
		require.Contains(t, seen, `"mcp__everything__echo"`)
		require.NotContains(t, seen, `"mcp__everything__get-sum"`)
		mark := regexp.MustCompile(`CONCLAVE_MCP_MARK[^,]*`)
		require.NotEmpty(t, mark.FindString(seen))
		require.Equal(t, mark.FindString(seen), mark.FindString(model.request("model-a", len(replies))), "both steps use one process")
	}

	pulled := filepath.Join(c.home, "pulled")
	require.Equal(t, 0, c.conclave("pull", "--verify", "tools", pulled).code)
	made, err := os.ReadFile(filepath.Join(pulled, "agents/agent_a/001/workspace/made.txt"))
	require.NoError(t, err)
	require.Contains(t, string(made), "made by ")
	require.FileExists(t, filepath.Join(pulled, "agents/agent_a/001/workspace/drawing.png"))
}

// asleep returns the processes that sleep for exactly that time.
func asleep(seconds string) []string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.DeleteFunc(lines, func(name string) bool {
		data, err := os.ReadFile(name)
		return err != nil || string(data) != "sleep\x00"+seconds+"\x00"
	})
}

// The commands of a worker that is killed with -9 end with it, daemons included, and the next
// worker runs the command again.
func TestKilledWorkerWithACommand(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	seconds := fmt.Sprintf("10.%09d", os.Getpid())
	model := newModelServer(t, map[string][]reply{
		"model-a": {runs("(setsid sleep " + seconds + " &); sleep " + seconds + " && echo slept"), answer("Rested."), vote("agent1", "Mine.")},
	})
	c := newCLI(t, "E2E_API_KEY=very-secret-value")
	run := c.start("run", "--automation", "--session-id", "killed", "--config", c.file("team.yaml", model.armed()), "Are you awake?")
	require.Eventually(t, func() bool { return len(asleep(seconds)) == 2 }, time.Minute, 20*time.Millisecond)
	require.NoError(t, run.Process.Signal(syscall.SIGKILL))
	run.ends(t)
	require.Eventually(t, func() bool { return len(asleep(seconds)) == 0 }, 8*time.Second, 20*time.Millisecond, "sooner than it would have ended")

	out := c.conclave("watch", "--automation", "killed")
	require.Equal(t, 0, out.code)
	out.result(t, "consensus")
	require.Equal(t, 3, model.calls("model-a"), "no call is paid for twice")
	require.Contains(t, model.request("model-a", 2), "slept")
}

// A host that cannot confine commands gets no session with a shell.
func TestNoShellWithoutItsSandbox(t *testing.T) {
	t.Parallel()
	sandboxed(t)
	model := newModelServer(t, nil)
	c := newCLI(t, "E2E_API_KEY=very-secret-value")
	team := c.file("team.yaml", model.armed())
	bare := `echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"`
	if exec.Command("unshare", "-Ur", "sh", "-c", bare, "sh", "true").Run() != nil {
		t.Skip("unshare cannot take user namespaces away here")
	}
	for _, line := range [][]string{{"run", "--config", team, "Why?"}, {"dev", "--config", team}, {"step", "--session-dir", filepath.Join(c.home, "s"), "--config", team, "Why?"}} {
		out := c.run("unshare", append([]string{"-Ur", "sh", "-c", bare, "sh", binary(t, "CONCLAVE_BIN")}, line...)...)
		require.Equal(t, 1, out.code, "%v", line)
		require.Contains(t, out.stderr, "user namespaces are off", "%v", line)
	}
	require.Zero(t, model.calls("model-a"))
	left, err := os.ReadDir(c.home)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the test's own file exists")
}
