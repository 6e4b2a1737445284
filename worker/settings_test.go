package worker

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities"
	"conclave/engine/config"
)

var update = flag.Bool("update", false, "write the expected messages")

const whole = `
providers:
  openai:
    base_url: https://api.openai.com/v1
    api_key_env: OPENAI_API_KEY
    params: {temperature: 0.7, reasoning_effort: low}
    price_per_million: {input: 1.25, cached_input: 0.125, output: 10}
    requests_per_minute: 500
    tokens_per_minute: 200000
  local:
    base_url: http://127.0.0.1:11434/v1
teams:
  default:
    agents:
      - {id: agent_a, backend: {provider: openai, model: gpt-5.2}}
      - {id: agent_b, backend: {provider: local, model: llama, params: {temperature: 0}}}
  trial:
    agent: {id: agent_a, backend: {type: offline}}
max_concurrent_steps: 8
heartbeat_timeout_seconds: 45
mcp_servers:
  browser: {command: npx, args: ["@playwright/mcp"], env: {DISPLAY: ":0", API_TOKEN: "${BROWSER_TOKEN}"}}
  tickets: {url: "https://tickets.example.com/mcp", type: streamable-http, token_env: TICKETS_TOKEN, call_timeout_seconds: 30, exclude_tools: [delete], scope: session}
sandbox: {level: landlock, timeout_seconds: 60, memory_mb: 512, toolchains: [/opt/go]}
metrics_address: ""
pages_url: https://conclave.example.com
notify:
  - {url_env: NOTIFY_URL, secret_env: NOTIFY_SECRET, events: [decided, failed]}
  - {url_env: SLACK_URL, format: slack}
`

func TestParse_wholeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	s, err := LoadSettings(path)
	require.NoError(t, err)

	openai := s.Providers["openai"]
	require.Equal(t, "https://api.openai.com/v1", openai.BaseURL)
	require.Equal(t, "OPENAI_API_KEY", openai.APIKeyEnv)
	require.Equal(t, map[string]any{"temperature": 0.7, "reasoning_effort": "low"}, openai.Params)
	require.True(t, openai.Price.Known())
	require.InDelta(t, 0.125, *openai.Price.CachedInput, 0)
	require.Equal(t, 500, *openai.RequestsPerMinute)
	require.Equal(t, 200_000, *openai.TokensPerMinute)
	require.Equal(t, Provider{BaseURL: "http://127.0.0.1:11434/v1"}, s.Providers["local"], "no price, no limit, no key unless given")

	require.Equal(t, []activities.Receiver{
		{URLEnv: "NOTIFY_URL", SecretEnv: "NOTIFY_SECRET", Events: []string{"decided", "failed"}, Format: "standard"},
		{URLEnv: "SLACK_URL", Format: "slack"},
	}, s.Notify)
	require.Equal(t, 45, *s.HeartbeatTimeoutSeconds)
	require.Nil(t, DefaultSettings().HeartbeatTimeoutSeconds, "it depends on where the worker runs")
	require.Len(t, s.Teams, 2)
	require.Equal(t, "local", s.Teams["default"].Agents[1].Backend.Provider)
	require.Equal(t, 12, s.Teams["trial"].Orchestrator.MaxStepsPerAgent, "teams have their defaults")
	require.Equal(t, 8, s.MaxConcurrentSteps)

	require.Equal(t, map[string]MCPServer{
		"browser": {
			Command: "npx", Args: []string{"@playwright/mcp"}, Env: map[string]string{"DISPLAY": ":0", "API_TOKEN": "${BROWSER_TOKEN}"},
			CallTimeoutSeconds: 120,
		},
		"tickets": {
			URL: "https://tickets.example.com/mcp", Type: "streamable-http", TokenEnv: "TICKETS_TOKEN", CallTimeoutSeconds: 30,
			ExcludeTools: []string{"delete"}, Scope: "session",
		},
	}, s.MCPServers)
	require.Equal(t, sandboxSettings{Level: "landlock", TimeoutSeconds: 60, CPUSeconds: 600, MemoryMB: 512, Processes: 256, DiskMB: 1024, Toolchains: []string{"/opt/go"}, Caches: usualCaches}, s.Sandbox)
}

var usualCaches = cacheSettings{Go: "warm", GoModules: "own", NPM: "own", Pip: "own", Cargo: "own"}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := config.Decode("worker.yaml", []byte("teams:\n"), config.Cluster.Beside("worker.yaml"), checkSettings)
	require.NoError(t, err)
	require.Equal(t, Settings{MaxConcurrentSteps: 32, Sandbox: sandboxSettings{
		Level: "full", TimeoutSeconds: 600, CPUSeconds: 600, MemoryMB: 2048, Processes: 256, DiskMB: 1024, Caches: usualCaches,
	}}, s)
	require.Equal(t, s, DefaultSettings(), "without a file the same holds")

	_, err = LoadSettings(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "read the worker configuration")
}

// testdata/broken.txt has the refused files: a line of === and a title, the text, and
// after a line of >>> the messages. `go test -run broken -update` writes them.
func TestParse_brokenFileIsRefusedWithAllProblems(t *testing.T) {
	t.Parallel()
	const file = "testdata/broken.txt"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var written strings.Builder
	for _, section := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		text, want, ok := strings.Cut(rest, ">>>\n")
		require.True(t, ok, "no >>> in %s", title)
		s, err := config.Decode("worker.yaml", []byte(text), config.Cluster.Beside("worker.yaml"), checkSettings)
		var problems config.Problems
		require.ErrorAs(t, err, &problems, title)
		require.Zero(t, s, title)
		require.NotContains(t, err.Error(), "verysecret", "a secret is never repeated")
		if *update {
			written.WriteString("=== " + title + "\n" + text + ">>>\n" + err.Error() + "\n\n")
			continue
		}
		require.Equal(t, strings.TrimSpace(want), err.Error(), title)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(written.String()), 0o644))
	}
}

// The operator's own programs may lie beside the worker's configuration.
func TestLoad_pathsBesideTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "worker.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.py"), nil, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("mcp_servers: {house: {command: ./bin/serve, args: [server.py, x]}}\n"), 0o600))
	s, err := LoadSettings(path)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "bin/serve"), s.MCPServers["house"].Command)
	require.Equal(t, []string{filepath.Join(dir, "server.py"), "x"}, s.MCPServers["house"].Args)
}
