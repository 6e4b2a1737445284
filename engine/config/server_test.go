package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReference_returnsTheVariable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"${HOME}": "HOME", "${A_1}": "A_1",
		"$HOME": "", "${HOME}/x": "", "x${HOME}": "", "${}": "", "${1A}": "", "${A B}": "", "": "", "plain": "",
	} {
		name, ok := Reference(value)
		require.Equal(t, want, name, value)
		require.Equal(t, want != "", ok, value)
	}
}

func TestDefines_isFalseForANameAlone(t *testing.T) {
	t.Parallel()
	require.False(t, MCPServer{Name: "a"}.Defines())
	require.False(t, MCPServer{Name: "a", AllowedTools: []string{"x"}, ExcludeTools: []string{"y"}}.Defines(), "a filter narrows a named server")
	for _, s := range []MCPServer{{Command: "x"}, {URL: "http://h/"}, {Args: []string{"x"}}, {Env: map[string]string{"A": ""}}, {Type: "stdio"}, {Scope: "session"}} {
		require.True(t, s.Defines())
	}
}

func TestParse_acceptsNamedServersOnACluster(t *testing.T) {
	t.Parallel()
	team, err := Parse("input config", []byte(`{"agents":[{"id":"agent_a","backend":{"model":"m"},"mcp_servers":["browser",{"name":"docs","exclude_tools":["delete"]}]}]}`), Cluster)
	require.NoError(t, err)
	require.Equal(t, []MCPServer{{Name: "browser"}, {Name: "docs", ExcludeTools: []string{"delete"}}}, team.Agents[0].MCPServers)

	canonical, err := team.Canonical()
	require.NoError(t, err)
	again, err := Parse("canonical", canonical, Cluster)
	require.NoError(t, err)
	require.Equal(t, team, again)
}

func TestKeepsBack(t *testing.T) {
	t.Parallel()
	s := MCPServer{Name: "web", AllowedTools: []string{"read", "write"}, ExcludeTools: []string{"write"}}
	require.False(t, s.keepsBack("mcp__web__read"))
	require.True(t, s.keepsBack("mcp__web__write"))
	require.True(t, s.keepsBack("mcp__web__delete"))
	require.False(t, MCPServer{Name: "web"}.keepsBack("mcp__web__delete"))
	require.False(t, MCPServer{Name: "web", AllowedTools: []string{"read all"}}.keepsBack("mcp__web__read_all"), "a name with a replaced character is not matched")
}

// Servers start in an empty directory: paths in a file are relative to the file.
func TestParse_makesPathsOfLocalProgramsAbsolute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"server.py", "tools/run", "sh", "stdio"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	file := filepath.Join(dir, "conclave.yaml")
	here := func(name string) string { return filepath.Join(dir, name) }
	for command, want := range map[string]string{
		"./missing": here("missing"), "./tools/run": here("tools/run"), "../x": filepath.Join(filepath.Dir(dir), "x"),
		"tools/run": here("tools/run"), "server.py": here("server.py"), "/bin/true": "/bin/true",
		"python3": "python3", "no-such-program": "no-such-program",
		"sh": "sh", // a file of a stranger's repository stands in for no program of PATH
	} {
		team, err := Parse(file, []byte("agents: [{id: a, backend: {type: offline}, mcp_servers: [{name: x, command: '"+command+"'}]}]"), Local.Beside(file))
		require.NoError(t, err, command)
		require.Equal(t, want, team.Agents[0].MCPServers[0].Command)
	}
	_, err := Parse(file, []byte("agents: [{id: a, backend: {type: offline}, mcp_servers: [{name: x, command: tools/missing}]}]"), Local.Beside(file))
	require.ErrorContains(t, err, "a relative path that names no file beside this one; begin it with ./, or give an absolute path")

	const server = "{name: x, command: python3, args: [-m, server.py, ./server.py, --config=./c.json, --config=stdio, ../up, ., --dir=., docs, tools/run, x=./y, https://h/./x, stdio]}"
	want := []string{
		"-m", here("server.py"), here("server.py"), "--config=" + here("c.json"), "--config=" + here("stdio"), filepath.Join(filepath.Dir(dir), "up"),
		".", "--dir=.", "docs", here("tools/run"), "x=./y", "https://h/./x", here("stdio"),
	}
	single, err := ParseSingle(file, []byte("agent: {id: a, backend: {type: offline}, mcp_servers: ["+server+"]}"))
	require.NoError(t, err)
	require.Equal(t, want, single.Agents[0].MCPServers[0].Args)
	p, _, err := ParsePipeline(file, []byte(`{start: a, agents: [{id: a, backend: {type: offline}, mcp_servers: [`+server+`]}],
  steps: [{name: a, agent: a, prompt: p, mcp_servers: [`+server+`]}]}`), Local.Beside(file))
	require.NoError(t, err)
	require.Equal(t, want, p.Agents[0].MCPServers[0].Args)
	require.Equal(t, want, (*p.Steps[0].MCPServers)[0].Args)

	canonical, err := single.Canonical()
	require.NoError(t, err)
	again, err := Parse("registered team", canonical, Local)
	require.NoError(t, err)
	require.Equal(t, want, again.Agents[0].MCPServers[0].Args, "what is stored is absolute, and not read again from a directory")
	_, err = Parse("input", []byte("agents: [{id: a, backend: {type: offline}, mcp_servers: [{name: x, command: ./x}]}]"), Local)
	require.Error(t, err, "without a file there is no directory")
}
