package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Contract, section 3: what tools need and is not there is exit 1, and nothing is
// started.
func TestToolsThatCannotBeOpenedAreRefusedBeforeAnythingStarts(t *testing.T) {
	s := newShell(t)
	s.file("unknown.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [browser]}\n")
	s.file("unset.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [{name: b, command: x, env: {A: \"${NO_SUCH_TOKEN}\"}}]}\n")
	s.file("broken.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [{name: b}, {name: b, command: x, url: \"http://h/\"}]}\n")
	s.file("tools.yaml", "mcp_servers: {tickets: {command: x}}\nsandbox: {level: landlock, toolchains: [/no/such/directory]}\n")
	data := t.TempDir()
	s.file("own.yaml", "sandbox: {level: \"off\", toolchains: ["+data+"]}\n")
	s.file("shell.yaml", "agent: {id: agent_a, backend: {type: offline}, tools: {shell: true}}\n")
	for name, tt := range map[string]struct {
		line []string
		says string
	}{
		"a server that nobody defines": {[]string{"run", "--config", "unknown.yaml", "Why?"}, `agent agent_a: this worker has no MCP server "browser"; it has none`},
		"dev with one":                 {[]string{"dev", "--config", "unknown.yaml"}, `this worker has no MCP server "browser"`},
		"a worker with others":         {[]string{"worker", "--worker-config", "tools.yaml", "--config", "unknown.yaml"}, `no MCP server "browser"; it has: tickets`},
		"a variable that is not set":   {[]string{"run", "--config", "unset.yaml", "Why?"}, "needs the environment variable NO_SUCH_TOKEN"},
		"a definition that is none":    {[]string{"run", "--config", "broken.yaml", "Why?"}, "agents[0].mcp_servers[1].name: \"b\" is the MCP server on line 1 already"},
		"a shell without a sandbox":    {[]string{"worker", "--worker-config", "tools.yaml", "--config", "shell.yaml"}, "agent agent_a: no shell: "},
		"a toolchain among own files":  {[]string{"worker", "--data-dir", filepath.Join(data, "stack"), "--worker-config", "own.yaml", "--config", "shell.yaml"}, "is, holds or lies in " + data},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := s.does(tt.line...)
			require.Equal(t, exitUsage, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.says)
			s.startedNothing()
		})
	}
}

// Sessions that are only started may be for a worker in another process, which
// has the servers; the sandbox is this machine's.
func TestWhoseToolsAreLookedAt(t *testing.T) {
	s := newShell(t)
	s.file("unknown.yaml", "agent: {id: agent_a, backend: {type: offline}, mcp_servers: [browser]}\n")
	team, _, err := readTeam("unknown.yaml", 0)
	require.NoError(t, err)
	c := &cli{}
	require.Error(t, c.equip(t.Context(), team, inThisProcess))
	require.Error(t, c.equip(t.Context(), team, ofAWorker))
	require.NoError(t, c.equip(t.Context(), team, ofAnyProcess))
	require.NoError(t, c.equip(t.Context(), team.Offline(), inThisProcess), "the built-in model uses none")
}
