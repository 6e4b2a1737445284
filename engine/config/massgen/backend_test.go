package massgen

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// Each parameter of a backend gets its name in the Chat Completions API.
func TestParam(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backend string
		params  map[string]any
		key     string // of the note
		note    string
	}{
		{"type: openai, model: m, temperature: 0.5", map[string]any{"temperature": 0.5}, "temperature", "moved to backend.params.temperature"},
		{"type: openai, model: m, max_tokens: 9", map[string]any{"max_completion_tokens": 9}, "max_tokens", "moved to backend.params.max_completion_tokens"},
		{"type: openai, model: m, base_url: 'http://h/v1', max_tokens: 9", map[string]any{"max_tokens": 9}, "max_tokens", "moved to backend.params.max_tokens"},
		{"type: groq, model: m, max_tokens: 9", map[string]any{"max_tokens": 9}, "max_tokens", "moved to backend.params.max_tokens"},
		{"type: groq, model: m, max_completion_tokens: 8, max_tokens: 9", map[string]any{"max_tokens": 9}, "max_completion_tokens", "not carried over: agents[0].backend.max_tokens sets the same limit"},
		{"type: openai, model: m, params: {max_tokens: 9, max_completion_tokens: 8}", map[string]any{"max_completion_tokens": 8}, "params.max_tokens", "not carried over: agents[0].backend.params.max_completion_tokens sets the same limit"},
		{"type: openai, model: m, reasoning: {effort: high}", map[string]any{"reasoning_effort": "high"}, "reasoning.effort", "moved to backend.params.reasoning_effort"},
		{"type: openai, model: m, reasoning: {summary: auto}", nil, "reasoning.summary", "belongs to the Responses API"},
		{"type: openai, model: m, reasoning: {other: x}", nil, "reasoning.other", noCounterpart},
		{"type: openrouter, model: m, reasoning: {effort: high}", map[string]any{"reasoning": map[string]any{"effort": "high"}}, "reasoning", "moved to backend.params.reasoning"},
		{"type: openai, model: m, reasoning: high", map[string]any{"reasoning": "high"}, "reasoning", "moved to backend.params.reasoning"},
		{"type: openai, model: m, text: {verbosity: low, format: x}", map[string]any{"verbosity": "low"}, "text.format", "set response_format in backend.params"},
		{"type: openai, model: m, extra_body: {top_k: 4, seed: 7}", map[string]any{"top_k": 4, "seed": 7}, "extra_body.seed", "moved to backend.params.seed"},
		{"type: openai, model: m, new_param: [1, 2]", nil, "new_param", "put it into backend.params if the service takes it"},
		{"type: openai, model: m, response_format: {type: text}", map[string]any{"response_format": map[string]any{"type": "text"}}, "response_format", "moved to backend.params.response_format"},
		{"type: openai, model: m, stream: true", nil, "stream", noCounterpart},
		{"type: openai, model: m, _private: 1", nil, "_private", noCounterpart},
		{"type: openai, model: m, voting_sensitivity: strict", nil, "voting_sensitivity", "one value holds for the whole team"},
		{"type: claude_code, model: m, top_p: 0.9, anything: 1", map[string]any{"top_p": 0.9}, "anything", "so it is not sent"},
	} {
		a, notes := translated(t, c.backend)
		require.Equal(t, fmt.Sprint(c.params), fmt.Sprint(a.Backend.Params), c.backend)
		require.Contains(t, notes[c.key], c.note, c.backend)
	}
}

// An address is kept, or replaced by a placeholder with a note. The variable of the key depends on
// the server.
func TestLocate(t *testing.T) {
	t.Parallel()
	const azure = "https://NAME.openai.azure.com/openai/v1"
	for _, c := range []struct{ backend, typ, address, variable, note string }{
		{"type: openai, model: m", "openai", "", "", ""},
		{"type: openai, model: m, base_url: 'http://h/v1'", "openai", "http://h/v1", "OPENAI_API_KEY", "this server is sent the key in OPENAI_API_KEY"},
		{"type: openai, model: m, base_url: 'http://h/v1', api_key: '${MY_KEY}'", "openai", "http://h/v1", "MY_KEY", ""},
		{"type: chatcompletion, model: m, base_url: 'http://h/v1'", "openai", "http://h/v1", "", ""},
		{"type: chatcompletion, model: m, base_url: 'https://api.moonshot.ai/v1'", "openai", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", ""},
		{"type: chatcompletion, model: m, base_url: 'https://api.groq.com/openai/v1/'", "groq", "https://api.groq.com/openai/v1/", "GROQ_API_KEY", ""},
		{"type: inference, model: m, base_url: '${HOST}/v1'", "openai", "http://SERVER.invalid/v1", "", "the placeholder for ${HOST}/v1"},
		{"type: vllm, model: m, base_url: 'http://gpu:8000/v1'", "vllm", "http://gpu:8000/v1", "", ""},
		{"type: azure_openai, model: m, base_url: 'https://x.openai.azure.com'", "azure", "https://x.openai.azure.com/openai/v1", "", "now ends in /openai/v1"},
		{"type: azure_openai, model: m, base_url: 'https://x.openai.azure.com/openai/v1'", "azure", "https://x.openai.azure.com/openai/v1", "", ""},
		{"type: azure_openai, model: m, base_url: '${END}'", "azure", azure, "", "the placeholder for ${END}"},
		{"type: azure_openai, model: m", "azure", azure, "", "the placeholder for AZURE_OPENAI_ENDPOINT"},
	} {
		a, notes := translated(t, c.backend)
		require.Equal(t, c.typ, a.Backend.Type, c.backend)
		require.Equal(t, c.address, a.Backend.BaseURL, c.backend)
		if c.variable != "" || c.typ != "azure" {
			require.Equal(t, c.variable, a.Backend.APIKeyEnv, c.backend)
		}
		if c.note == "" {
			require.NotContains(t, notes, "base_url", c.backend)
		}
		require.Contains(t, notes["base_url"], c.note, c.backend)
	}
}

// Keys must be references to variables. A literal key is omitted and not repeated in notes.
func TestKey(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"'${TEAM_KEY}'": "TEAM_KEY", "'${lower_TOKEN}'": "lower_TOKEN",
		"sk-planted": "", "'$TEAM_KEY'": "", "'x${TEAM_KEY}'": "", "{a: b}": "",
	} {
		a, notes := translated(t, "type: openai, model: m, api_key: "+value)
		require.Equal(t, want, a.Backend.APIKeyEnv, value)
		require.NotContains(t, notes["api_key"], "planted")
		require.Equal(t, want == "", notes["api_key"] != "moved to backend.api_key_env, which takes the name of the variable", value)
	}
}

// The first model, its parameters and the instructions of an AG2 agent are translated.
func TestFramework(t *testing.T) {
	t.Parallel()
	for api, want := range frameworkTypes {
		a, notes := translated(t, "type: ag2, agent_config: {system_message: Be brief., llm_config: [{api_type: "+api+", model: first, temperature: 0.1, cache_seed: 4}, {model: second}]}")
		require.Equal(t, want, a.Backend.Type)
		require.Equal(t, "first", a.Backend.Model)
		require.Equal(t, map[string]any{"temperature": 0.1}, a.Backend.Params)
		require.Equal(t, "Be brief.", a.SystemMessage)
		require.False(t, a.Tools.Shell.On())
		require.Contains(t, notes["agent_config"], "its first model with its parameters and the system message are carried over")
	}
	a, notes := translated(t, "type: autogen, agent_config: {code_execution_config: {executor: x}, llm_config: {model: m}}")
	require.Equal(t, config.OpenAI, a.Backend.Type)
	require.True(t, a.Tools.Shell.On())
	require.Contains(t, notes["agent_config"], "code execution becomes tools.shell")
	_, notes = translated(t, "type: ag2, group_config: {llm_config: {model: m}, agents: [{name: x}]}")
	require.Contains(t, notes["group_config"], "one agent with the group's model stands for the group")
}

// conclave's own types and keys of a backend are kept without a note.
func TestBackend_keepsItsOwnKeys(t *testing.T) {
	t.Parallel()
	a, notes := translated(t, "type: llamacpp, model: m, base_url: 'http://h:1/v1', context_window: 4096, max_concurrent_calls: 2, silent_timeout_seconds: 60, params: {seed: 1}")
	require.Equal(t, "llamacpp", a.Backend.Type)
	require.Equal(t, 4096, *a.Backend.ContextWindow)
	require.Equal(t, "map[seed:1]", fmt.Sprint(a.Backend.Params))
	require.Empty(t, notes)
}
