package main

import (
	"path/filepath"
	"testing"

	"conclave/cmd/conclave/cli"

	"github.com/stretchr/testify/require"
)

// Contract, section 3: missing servers, variables and sandboxes are exit code 1, and
// nothing is started.
func TestMissingTools_startNothing(t *testing.T) {
	s := newShell(t)
	s.File("unknown.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [browser]}\n")
	s.File("unset.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [{name: b, command: x, env: {A: \"${NO_SUCH_TOKEN}\"}}]}\n")
	s.File("broken.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [{name: b}, {name: b, command: x, url: \"http://h/\"}]}\n")
	s.File("tools.yaml", "mcp_servers: {tickets: {command: x}}\nsandbox: {level: landlock, toolchains: [/no/such/directory]}\n")
	data := t.TempDir()
	s.File("own.yaml", "sandbox: {level: \"off\", toolchains: ["+data+"]}\n")
	s.File("shell.yaml", "agent: {id: agent_a, backend: {type: offline}, tools: {shell: true}}\n")
	for name, tt := range map[string]struct {
		line []string
		says string
	}{
		"a server without a definition": {[]string{"run", "--config", "unknown.yaml", "Why?"}, `agent agent_a: this worker has no MCP server "browser"; it has none`},
		"dev with one":                  {[]string{"dev", "--config", "unknown.yaml"}, `this worker has no MCP server "browser"`},
		"a worker with others":          {[]string{"worker", "--worker-config", "tools.yaml", "--config", "unknown.yaml"}, `no MCP server "browser"; it has: tickets`},
		"a variable that is not set":    {[]string{"run", "--config", "unset.yaml", "Why?"}, "needs the environment variable NO_SUCH_TOKEN"},
		"a duplicate definition":        {[]string{"run", "--config", "broken.yaml", "Why?"}, "agents[0].mcp_servers[1].name: \"b\" is the MCP server on line 1 already"},
		"a shell without a sandbox":     {[]string{"worker", "--worker-config", "tools.yaml", "--config", "shell.yaml"}, "agent agent_a: no shell: "},
		"a toolchain among own files":   {[]string{"worker", "--data-dir", filepath.Join(data, "stack"), "--worker-config", "own.yaml", "--config", "shell.yaml"}, "is, holds or lies in " + data},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := s.Run(tt.line...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.says)
			s.StartedNothing()
		})
	}
}
