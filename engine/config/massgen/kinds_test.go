package massgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// translated imports a team of one agent with the keys of its backend, and returns the
// agent and the notes by key.
func translated(t *testing.T, backend string) (config.Agent, map[string]string) {
	t.Helper()
	got, err := Import("team", []byte("agents: [{id: a, backend: {"+backend+"}}]"))
	require.NoError(t, err)
	require.NoError(t, got.Invalid, backend)
	team, err := config.Parse("team", got.YAML, config.Local)
	require.NoError(t, err)
	return team.Agents[0], notesOf(got)
}

// notesOf returns the messages of notes by key, without the prefix of the agent and the backend.
func notesOf(t Translation) map[string]string {
	notes := map[string]string{}
	for _, n := range t.Notes {
		for _, key := range n.Keys {
			notes[strings.TrimPrefix(strings.TrimPrefix(key, "agents[0]."), "backend.")] = n.Message
		}
	}
	return notes
}

// Every MassGen type is translated to a valid backend with its address, the variable of its key and
// its default model.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			a, notes := translated(t, "type: "+strings.ToUpper(k.name))
			require.Equal(t, k.as, a.Backend.Type)
			require.Equal(t, k.agent != "" && k.agent != "AG2", a.Tools.Shell.On(), "a command-line agent has a shell")
			switch k.name {
			case "azure_openai":
				require.Contains(t, notes["base_url"], "the placeholder for AZURE_OPENAI_ENDPOINT")
			case "uitars":
				require.Contains(t, notes["base_url"], "replace the placeholder http://SERVER.invalid/v1")
			default:
				require.Equal(t, k.baseURL, a.Backend.BaseURL)
			}
			if k.keyVariable != "" {
				require.Equal(t, k.keyVariable, a.Backend.APIKeyEnv)
			}
			if k.model == "" {
				require.Equal(t, "MODEL", a.Backend.Model)
				require.Contains(t, notes["model"], "MassGen has no default")
			} else {
				require.Equal(t, k.model, a.Backend.Model)
				require.Equal(t, "missing; MassGen's default is "+k.model, notes["model"])
			}
			if k.as != k.name {
				require.NotEmpty(t, notes["type"], "a changed type is noted")
			}
		})
	}
}

// Models of Copilot are requested from their vendors.
func TestTypeOf(t *testing.T) {
	t.Parallel()
	copilot, _ := kindOf("copilot")
	for model, want := range map[string]string{"claude-sonnet-4": "anthropic", "gemini-2.5-pro": "gemini", "gpt-5": "openai", "": "openai"} {
		require.Equal(t, want, typeOf(copilot, model), model)
	}
	other, _ := kindOf("groq")
	require.Equal(t, "groq", typeOf(other, "claude-like"))
}

// A known host determines the variable of the key. A host that only ends alike does not.
func TestVariableOf(t *testing.T) {
	t.Parallel()
	for suffix, variable := range map[string]string{
		"cerebras.ai": "CEREBRAS_API_KEY", "together.ai": "TOGETHER_API_KEY", "bigmodel.cn": "ZAI_API_KEY", "openai.com": "OPENAI_API_KEY",
		"openrouter.ai": "OPENROUTER_API_KEY", "groq.com": "GROQ_API_KEY", "moonshot.cn": "MOONSHOT_API_KEY", "nvidia.com": "NGC_API_KEY",
	} {
		for _, host := range []string{suffix, "api." + suffix} {
			require.Equal(t, variable, variableOf("https://"+host+":443/v1"), host)
		}
		require.Empty(t, variableOf("https://not"+suffix+".example/v1"))
		require.Empty(t, variableOf("https://x"+strings.ReplaceAll(suffix, ".", "-")+"/v1"))
	}
	require.Empty(t, variableOf("://"))
	require.Empty(t, variableOf("http://127.0.0.1:8000/v1"))
}

// If a chatcompletion backend has the address of one of conclave's types, it gets that type.
func TestTypeAt(t *testing.T) {
	t.Parallel()
	for _, known := range config.BackendTypes() {
		if known.BaseURL == "" || known.Local {
			continue
		}
		require.Equal(t, known.Name, typeAt(known.BaseURL+"/"), known.BaseURL)
		a, _ := translated(t, fmt.Sprintf("type: chatcompletion, model: m, base_url: %q", known.BaseURL))
		require.Equal(t, known.Name, a.Backend.Type)
	}
	require.Empty(t, typeAt("http://127.0.0.1:8000/v1"))
}
