package settings_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/worker/settings"
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
mcp_servers: {}
sandbox:
metrics_address: ""
`

func TestAWholeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	s, err := settings.Load(path)
	require.NoError(t, err)

	openai := s.Providers["openai"]
	require.Equal(t, "https://api.openai.com/v1", openai.BaseURL)
	require.Equal(t, "OPENAI_API_KEY", openai.APIKeyEnv)
	require.Equal(t, map[string]any{"temperature": 0.7, "reasoning_effort": "low"}, openai.Params)
	require.True(t, openai.Price.Known())
	require.InDelta(t, 0.125, *openai.Price.CachedInput, 0)
	require.Equal(t, 500, *openai.RequestsPerMinute)
	require.Equal(t, 200_000, *openai.TokensPerMinute)
	require.Equal(t, settings.Provider{BaseURL: "http://127.0.0.1:11434/v1"}, s.Providers["local"], "no price, no limit, no key unless given")

	require.Len(t, s.Teams, 2)
	require.Equal(t, "local", s.Teams["default"].Agents[1].Backend.Provider)
	require.Equal(t, 12, s.Teams["trial"].Orchestrator.MaxStepsPerAgent, "teams have their defaults")
	require.Equal(t, 8, s.MaxConcurrentSteps)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s, err := settings.Parse("worker.yaml", []byte("teams:\n"))
	require.NoError(t, err)
	require.Equal(t, settings.Settings{MaxConcurrentSteps: 32}, s)

	_, err = settings.Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "read the worker configuration")
}

// What is refused is in testdata/broken.txt: a line of === and a title, the text,
// and after a line of >>> the messages. `go test -run Broken -update` writes them.
func TestBrokenFilesAreRefusedWithEveryProblemAtItsPlace(t *testing.T) {
	t.Parallel()
	const file = "testdata/broken.txt"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var written strings.Builder
	for _, section := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		text, want, ok := strings.Cut(rest, ">>>\n")
		require.True(t, ok, "no >>> in %s", title)
		s, err := settings.Parse("worker.yaml", []byte(text))
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
