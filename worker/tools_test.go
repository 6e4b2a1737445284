package worker

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/activities/mcp"
	"conclave/activities/sandbox"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/text"
)

func without(s Settings, level sandbox.Level) *Tools {
	t := NewTools(s)
	t.probed.Do(func() {
		t.host = sandbox.Host{Level: level, Missing: []string{"user namespaces are off: switch them on"}}
		t.refusal = t.tryShell()
	})
	return t
}

func named(servers ...config.MCPServer) config.Agent {
	agent := config.Agent{ID: "agent_a", MCPServers: servers}
	agent.Tools.Files = true
	return agent
}

func shell() config.Agent {
	agent := config.Agent{ID: "agent_s"}
	agent.Tools.Shell = config.ShellOn
	return agent
}

func TestServersOf_areTheNamedOnes(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.MCPServers = map[string]MCPServer{
		"browser": {Command: "npx", Args: []string{"x"}, Env: map[string]string{"A_TOKEN": "${MY_SECRET}", "LEVEL": "debug"}, CallTimeoutSeconds: 7},
		"tickets": {URL: "https://h/mcp", TokenEnv: "TICKETS_TOKEN"},
	}
	tools := NewTools(s)
	tools.Getenv = environment(map[string]string{"MY_SECRET": "verysecret", "TICKETS_TOKEN": "alsosecret"})
	servers, err := tools.serversOf(named(
		config.MCPServer{Name: "browser"},
		config.MCPServer{Name: "tickets"},
		config.MCPServer{Name: "own", Command: "mine", Env: map[string]string{"B": "${TICKETS_TOKEN}"}},
	))
	require.NoError(t, err)
	require.Equal(t, []mcp.Server{
		{Name: "browser", Command: "npx", Args: []string{"x"}, Env: map[string]string{"A_TOKEN": "verysecret", "LEVEL": "debug"}, CallTimeout: 7 * time.Second},
		{Name: "tickets", URL: "https://h/mcp", Token: "alsosecret"},
		{Name: "own", Command: "mine", Env: map[string]string{"B": "alsosecret"}},
	}, servers)
	servers, err = tools.serversOf(named(config.MCPServer{Name: "browser", URL: "http://mine/"}))
	require.NoError(t, err)
	require.Equal(t, []mcp.Server{{Name: "browser", URL: "http://mine/"}}, servers, "a definition of its own comes first")
}

// A team can narrow the operator's filters but not widen them.
func TestServersOf_filtersAreJoined(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.MCPServers = map[string]MCPServer{
		"files": {Command: "x", AllowedTools: []string{"read", "write"}, ExcludeTools: []string{"delete"}, Scope: "session"},
	}
	for name, tt := range map[string]struct {
		server            config.MCPServer
		allowed, excluded []string
		shared            bool
	}{
		"only the operator's": {config.MCPServer{Name: "files"}, []string{"read", "write"}, []string{"delete"}, true},
		"both": {
			config.MCPServer{Name: "files", AllowedTools: []string{"read", "delete", "run"}, ExcludeTools: []string{"write"}},
			[]string{"read"},
			[]string{"delete", "write"},
			true,
		},
		"nothing in common": {config.MCPServer{Name: "files", AllowedTools: []string{"run"}}, []string{}, []string{"delete"}, true},
		"a file's own": {
			config.MCPServer{Name: "own", Command: "y", AllowedTools: []string{"read"}, Scope: "step"}, []string{"read"}, nil, false,
		},
	} {
		servers, err := NewTools(s).serversOf(named(tt.server))
		require.NoError(t, err, name)
		require.Equal(t, tt.allowed, servers[0].Allowed, name)
		require.Equal(t, tt.excluded, servers[0].Excluded, name)
		require.Equal(t, tt.shared, servers[0].Shared, name)
	}
}

func TestOpen_stepsOfARunShareAServer(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	tools := NewTools(DefaultSettings())
	t.Cleanup(tools.closeShared)
	agent := named(config.MCPServer{Name: "teller", Command: self, Args: []string{serve}, Scope: "session"})
	mark := func(run string) string {
		opened, err := tools.Open(t.Context(), agent, t.TempDir(), activities.Sharing{Run: run})
		require.NoError(t, err)
		defer func() { require.NoError(t, opened.Close()) }()
		out, err := opened.Run(t.Context(), llm.ToolCall{Name: "mcp__teller__tell", Arguments: "{}"})
		require.NoError(t, err)
		require.Contains(t, out.Text, "CONCLAVE_MCP_MARK=")
		return out.Text
	}
	first := mark("sessions/s1/")
	require.Equal(t, first, mark("sessions/s1/"))
	require.NotEqual(t, first, mark("sessions/s2/"))
	require.Len(t, tools.shared.Dirs("sessions/s1/"), 1)
	tools.shared.End("sessions/s1/")
	require.Empty(t, tools.shared.Dirs("sessions/s1/"))
	require.NotEqual(t, first, mark("sessions/s1/"))
}

// A run may also share servers of scope step.
func TestOpen_sharesAll(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	tools := NewTools(DefaultSettings())
	t.Cleanup(tools.closeShared)
	agent := named(config.MCPServer{Name: "teller", Command: self, Args: []string{serve}})
	for _, all := range []bool{true, false} {
		opened, err := tools.Open(t.Context(), agent, t.TempDir(), activities.Sharing{Run: "r/", All: all})
		require.NoError(t, err)
		require.NoError(t, opened.Close())
		require.Equal(t, all, len(tools.shared.Dirs("r/")) == 1)
		tools.shared.End("r/")
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.MCPServers = map[string]MCPServer{"browser": {Command: "npx"}, "tickets": {URL: "https://h/mcp", TokenEnv: "TICKETS_TOKEN"}}
	tools := without(s, sandbox.Landlock)
	tools.Getenv = environment(nil)
	require.NoError(t, tools.Lacks(t.Context(), named(config.MCPServer{Name: "browser"})))
	require.NoError(t, tools.Lacks(t.Context(), named()))

	err := tools.Lacks(t.Context(), named(config.MCPServer{Name: "brwser"}))
	require.True(t, activities.Lacks(err, activities.NoServer))
	require.EqualError(t, err, `this worker has no MCP server "brwser"; it has: browser, tickets`)
	require.ErrorContains(t, NewTools(DefaultSettings()).Lacks(t.Context(), named(config.MCPServer{Name: "x"})), "it has none; an operator defines MCP servers")

	err = tools.Lacks(t.Context(), named(config.MCPServer{Name: "tickets"}))
	require.True(t, activities.Lacks(err, activities.MissingKey))
	require.EqualError(t, err, "agent agent_a needs the environment variable TICKETS_TOKEN, which is not set for this worker")
	err = tools.Lacks(t.Context(), named(config.MCPServer{Name: "own", Command: "x", Env: map[string]string{"A": "${NOWHERE}"}}))
	require.True(t, activities.Lacks(err, activities.MissingKey))
	require.EqualError(t, err, "agent agent_a needs the environment variable NOWHERE, which is not set for this worker")

	err = tools.Lacks(t.Context(), shell())
	require.True(t, activities.Lacks(err, activities.NoSandbox))
	var level *sandbox.LevelError
	require.ErrorAs(t, err, &level, "the refusal is the sandbox's own")
	require.ErrorContains(t, err, "user namespaces are off: switch them on")
	_, err = tools.Open(t.Context(), shell(), t.TempDir(), activities.Sharing{})
	require.True(t, activities.Lacks(err, activities.NoSandbox))

	both := config.Team{Agents: []config.Agent{named(config.MCPServer{Name: "tickets"}), shell()}}
	require.True(t, activities.Lacks(tools.Check(t.Context(), both), activities.NoSandbox), "an unset variable is reported only if nothing else is missing")
	require.ErrorContains(t, tools.Check(t.Context(), both), "agent agent_s: no shell: ")
	require.NoError(t, tools.Check(t.Context(), config.Default()))

	c := Config{Tools: tools, Models: Models{Getenv: func(string) string { return "set" }}, Teams: activities.Teams{Named: map[string]config.Team{"default": config.Default(), "builders": both}}}
	require.Len(t, c.Missing(t.Context()), 1)
	require.Contains(t, c.Missing(t.Context())[0], "sessions of the team builders cannot work here: agent agent_s: no shell")
}

func TestOptions_levelIsTheOperators(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	require.Error(t, without(s, sandbox.Landlock).Lacks(t.Context(), shell()), "without a word full is required")
	s.Sandbox.Level = "landlock"
	tools := without(s, sandbox.Landlock)
	require.True(t, tools.Repeatable("run_command"))
	s.Sandbox.Level = "off"
	tools = NewTools(s)
	require.NoError(t, tools.Lacks(t.Context(), shell()))
	require.False(t, tools.Repeatable("run_command"), "an unconfined command may have any effect")
	require.True(t, tools.Repeatable("write_file"))
	require.False(t, tools.Repeatable("mcp__browser__open"))

	s.Sandbox.Toolchains = []string{"/no/such/directory"}
	s.Sandbox.Level = "landlock"
	require.ErrorContains(t, without(s, sandbox.Full).Lacks(t.Context(), shell()), "toolchain", "before any step")
}

func TestOptions_toolchainsExcludeTheWorkersFiles(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := DefaultSettings()
	s.Sandbox.Level, s.Sandbox.Toolchains = "off", []string{data}
	require.NoError(t, NewTools(s).Lacks(t.Context(), shell()))
	tools := NewTools(s)
	tools.Keep("", filepath.Join(data, "scratch"), filepath.Join(data, "scratch"))
	require.ErrorContains(t, tools.Lacks(t.Context(), shell()), "is, holds or lies in "+filepath.Join(data, "scratch"))
	require.Len(t, tools.private, 1)
}

func TestOptions_limitsAreTheOperators(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	require.Equal(t, sandbox.Limits{Time: 600 * time.Second, CPU: 600 * time.Second, Memory: 2 << 30, Disk: 1 << 30, Processes: 256}, NewTools(s).sandboxOptions().Limits)
	require.Equal(t, sandbox.Full, NewTools(s).sandboxOptions().Level)
}

// The tools are opened and used at the level that this host supports.
func TestOpen(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	s := DefaultSettings()
	s.MCPServers = map[string]MCPServer{"teller": {Command: self, Args: []string{serve}, Env: map[string]string{"A_TOKEN": "${MY_SECRET}", "B": "plain", "C": "${CONCLAVE_WORKSPACE}"}}}
	tools := NewTools(s)
	tools.Getenv = environment(map[string]string{"MY_SECRET": "verysecret"})
	agent := named(config.MCPServer{Name: "teller"}, config.MCPServer{Name: "own", Command: self, Args: []string{serve}, Env: map[string]string{"PASSWORD": "literalsecret"}})
	agent.Tools.Shell = config.ShellOn
	if err := tools.Lacks(t.Context(), agent); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "work")
	require.NoError(t, os.Mkdir(dir, 0o755))
	opened, err := tools.Open(t.Context(), agent, dir, activities.Sharing{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	require.Len(t, opened.Tools(), 9)
	run := func(name, arguments string) string {
		out, err := opened.Run(t.Context(), llm.ToolCall{Name: name, Arguments: arguments})
		require.NoError(t, err)
		return out.Text
	}
	require.Contains(t, run("run_command", `{"command": "echo $((6*7))"}`), "42\n")
	output := run("mcp__teller__tell", "{}")
	require.Contains(t, output, "B=plain")
	require.Contains(t, output, "C="+dir)
	require.Contains(t, output, "A_TOKEN=[redacted]")
	require.NotContains(t, output+run("mcp__own__tell", "{}"), "secret")
	require.Equal(t, []string{"A_TOKEN=verysecret", "B=plain", "C=${CONCLAVE_WORKSPACE}"}, slices.Sorted(slices.Values(tools.serverSecrets())), "the secrets that the worker redacts")
	require.Equal(t, "x [redacted]", text.NewRedactor(text.SecretsOfEnvironment(tools.serverSecrets())).String("x verysecret"))
}

func TestOpen_serverThatDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	require.NoError(t, os.Mkdir(dir, 0o755))
	_, err := NewTools(DefaultSettings()).Open(t.Context(), named(config.MCPServer{Name: "broken", Command: "false"}), dir, activities.Sharing{})
	require.True(t, activities.Lacks(err, activities.ToolsUnavailable))
	require.ErrorContains(t, err, `MCP server "broken"`)
}

// Commands with a network may have effects outside of their workspace, and checks never have one.
func TestTools_network(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	tools := NewTools(s)
	require.Nil(t, tools.sandboxOptions().Network.Serve)
	require.True(t, tools.Repeatable("run_command"))

	s.Sandbox.Network = []string{"Code.Example:443", "10.1.2.3:8080"}
	tools = NewTools(s)
	n := tools.sandboxOptions().Network
	require.Equal(t, "code.example:443, 10.1.2.3:8080", n.Reaches)
	require.False(t, tools.Repeatable("run_command"))
	require.True(t, tools.Repeatable("read_file"))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	socket, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	proxy := n.Serve(socket)
	require.NoError(t, socket.Close())
	require.NoError(t, listener.Close())
	proxied := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: listener.Addr().String()})}}
	_, err = proxied.Get("https://evil.example/")
	require.ErrorContains(t, err, "Forbidden")
	require.NoError(t, proxy.Close())
}
