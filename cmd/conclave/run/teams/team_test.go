package teams

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
)

const mixedTeam = `
agents:
  - id: agent_a
    backend: {type: openai, model: m}
  - id: agent_b
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1"}
  - id: agent_c
    backend: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: VLLM_API_KEY}
`

func TestLocal_resolvesModels(t *testing.T) {
	type where struct{ url, key string }
	for name, tt := range map[string]struct {
		env  map[string]string
		want []where
	}{
		"key": {
			map[string]string{"OPENAI_API_KEY": "sk-secret", "VLLM_API_KEY": "k"},
			[]where{{"https://api.openai.com/v1", "OPENAI_API_KEY"}, {"http://127.0.0.1:1/v1", ""}, {"http://127.0.0.1:1/v1", "VLLM_API_KEY"}},
		},
		"local server": {
			map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "VLLM_API_KEY": "k"},
			[]where{{"http://127.0.0.1:11434/v1", ""}, {"http://127.0.0.1:1/v1", ""}, {"http://127.0.0.1:1/v1", "VLLM_API_KEY"}},
		},
		"server with key": {
			map[string]string{"OPENAI_BASE_URL": "https://llm.example.com/v1", "OPENAI_API_KEY": "sk-secret", "VLLM_API_KEY": "k"},
			[]where{{"https://llm.example.com/v1", "OPENAI_API_KEY"}, {"http://127.0.0.1:1/v1", ""}, {"http://127.0.0.1:1/v1", "VLLM_API_KEY"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			s.File(ProjectFile, mixedTeam) // found without --config
			_, err := RememberTrust(file(ProjectFile, mixedTeam))
			require.NoError(t, err)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			team, source, err := Local(&cli.CLI{}, &Worker{}, false)
			require.NoError(t, err)
			require.Equal(t, ProjectFile, source)
			var got []where
			for _, a := range team.Agents {
				got = append(got, where{a.Backend.BaseURL, a.Backend.APIKeyEnv})
			}
			require.Equal(t, tt.want, got)

			dir := t.TempDir()
			cfg, err := workerConfig(&cli.Connection{CLI: &cli.CLI{}, Target: cli.Target{DataDir: dir}}, team)
			require.NoError(t, err)
			entries, err := os.ReadDir(cfg.Teams.Dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "the team is registered")
			data, err := os.ReadFile(cfg.Teams.Dir + "/" + entries[0].Name())
			require.NoError(t, err)
			require.NotContains(t, string(data), "sk-secret", "a key is never written")
			_, err = config.Parse("registered", data, config.Local)
			require.NoError(t, err)
		})
	}
}

func TestLocal_offlineNeedsNoKey(t *testing.T) {
	s := newShell(t)
	s.File(ProjectFile, mixedTeam)
	team, _, err := Local(&cli.CLI{}, &Worker{}, true)
	require.NoError(t, err)
	for _, a := range team.Agents {
		require.Equal(t, config.Backend{Type: config.Offline}, a.Backend)
	}
}

func TestReadFile_limit(t *testing.T) {
	s := newShell(t)
	s.File("largest.yaml", strings.Repeat("#", maxInputFile))
	s.File("large.yaml", strings.Repeat("#", maxInputFile+1))
	data, err := ReadFile("largest.yaml")
	require.NoError(t, err)
	require.Len(t, data, maxInputFile)
	_, err = ReadFile("large.yaml")
	require.ErrorContains(t, err, "more than 1048576 bytes")
}
