package massgen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// Each key of a server and each form of its values.
func TestServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server string
		want   config.MCPServer
		key    string // of the note below mcp_servers[0].
		note   string
	}{
		{"name: files, command: npx, args: [-y, files]", config.MCPServer{Name: "files", Command: "npx", Args: []string{"-y", "files"}}, "", ""},
		{"name: Files!, command: npx", config.MCPServer{Name: "files_", Command: "npx"}, "name", `"Files!" is now files_`},
		{"command: npx", config.MCPServer{Name: "server", Command: "npx"}, "name", "is now server"},
		{"name: web, type: http, url: 'https://h/mcp'", config.MCPServer{Name: "web", Type: "streamable-http", URL: "https://h/mcp"}, "type", "now streamable-http"},
		{"name: web, type: streamableHttp, url: 'https://h/mcp'", config.MCPServer{Name: "web", Type: "streamable-http", URL: "https://h/mcp"}, "type", "now streamable-http"},
		{"name: web, type: sse, url: 'https://h/mcp'", config.MCPServer{Name: "web", URL: "https://h/mcp"}, "type", "does not support the older transport sse"},
		{"name: x, type: stdio, command: npx", config.MCPServer{Name: "x", Type: "stdio", Command: "npx"}, "", ""},
		{"name: x, command: ./bin/x", config.MCPServer{Name: "x", Command: "/PATH/TO/x"}, "command", "replace the placeholder /PATH/TO/x"},
		{"name: x, command: /bin/x", config.MCPServer{Name: "x", Command: "/bin/x"}, "", ""},
		{"name: x, command: npx, args: ['${cwd}/in']", config.MCPServer{Name: "x", Command: "npx", Args: []string{"${CONCLAVE_WORKSPACE}/in"}}, "args[0]", "${cwd} is now ${CONCLAVE_WORKSPACE}, the agent's workspace"},
		{"name: x, command: npx, args: ['--key=${KEY}']", config.MCPServer{Name: "x", Command: "npx", Args: []string{"--key=${KEY}"}}, "args[0]", "${KEY} stays unchanged"},
		{"name: x, command: npx, args: [../srv.py]", config.MCPServer{Name: "x", Command: "npx", Args: []string{"../srv.py"}}, "args[0]", "write an absolute path"},
		{"name: x, command: npx, env: {A: '${A_TOKEN}', N: 3}", config.MCPServer{Name: "x", Command: "npx", Env: map[string]string{"A": "${A_TOKEN}", "N": "3"}}, "", ""},
		{"name: x, command: npx, env: {A: 'b-${A}'}", config.MCPServer{Name: "x", Command: "npx", Env: map[string]string{"A": "b-${A}"}}, "env.A", "${A} is not replaced within a longer value"},
		{"name: x, command: npx, exclude_tools: [mcp__x__rm]", config.MCPServer{Name: "x", Command: "npx", ExcludeTools: []string{"rm"}}, "", ""},
		{"name: x, command: npx, allowed_tools: []", config.MCPServer{Name: "x", Command: "npx"}, "", ""},
		{"name: x, command: npx, headers: {X: y}", config.MCPServer{Name: "x", Command: "npx"}, "headers", "headers are not part of a team file"},
	} {
		a, notes := translated(t, "type: openai, model: m, mcp_servers: [{"+c.server+"}]")
		require.Len(t, a.MCPServers, 1, c.server)
		got := a.MCPServers[0]
		require.Equal(t, c.want, config.MCPServer{
			Name: got.Name, Type: got.Type, Command: got.Command, Args: got.Args, Env: got.Env, URL: got.URL, AllowedTools: got.AllowedTools, ExcludeTools: got.ExcludeTools,
		}, c.server)
		if c.key == "" {
			require.Empty(t, notes, c.server)
			continue
		}
		require.Contains(t, notes["mcp_servers[0]."+c.key], c.note, c.server)
	}
}

// The allow list of a command-line agent contains the program's own tools as well as those of
// servers. Its exclusions also apply to servers.
func TestServer_filtersOfCommandLineAgents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter            string
		allowed, excluded []string
		note              string
	}{
		{"allowed_tools: [Read, Bash]", nil, nil, "names tools of Claude Code; tools.files and tools.shell are set to replace them"},
		{"allowed_tools: [Read, mcp__web__get]", []string{"get"}, nil, "the names of MCP tools moved to allowed_tools of the agent's mcp_servers; tools.files and tools.shell are set to replace the tools of Claude Code that it names"},
		{"allowed_tools: [mcp__other__get]", nil, nil, "names tools of Claude Code"},
		{"exclude_tools: [post, mcp__web__rm]", nil, []string{"post", "rm"}, "moved to exclude_tools of the agent's mcp_servers"},
	} {
		a, notes := translated(t, "type: claude_code, model: m, mcp_servers: {web: {command: web}}, "+c.filter)
		require.Equal(t, c.allowed, a.MCPServers[0].AllowedTools, c.filter)
		require.Equal(t, c.excluded, a.MCPServers[0].ExcludeTools, c.filter)
		key, _, _ := strings.Cut(c.filter, ":")
		require.Contains(t, notes[key], c.note, c.filter)
	}
}
