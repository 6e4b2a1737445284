package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// With think_first auto, only models that do not reason by default are asked to think first.
func TestThinksFirst(t *testing.T) {
	t.Parallel()
	for model, reasons := range map[string]bool{
		"gpt-5.2": true, "openai/gpt-oss-120b": true, "o3-mini": true, "o1": true, "claude-sonnet-4-5": true, "gemini-2.5-flash": true, "grok-4-fast": true,
		"deepseek-reasoner": true, "deepseek/deepseek-r1-0528": true, "qwen3:8b": true, "Qwen/QwQ-32B": true, "kimi-k2-thinking": true,
		"deepseek-r1:7b": true, "glm-4.6": true, "phi-4-reasoning": true,
		"gpt-4.1": false, "gpt-4o": false, "qwen2.5-coder:0.5b": false, "llama3.2": false, "mistral-small": false, "claude-3-5-haiku": false,
		"gemini-2.0-flash": false, "deepseek-chat": false, "smollm2:135m": false, "o": false, "kimi-k2": false, "rethinkdb": false,
	} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			team := Default()
			team.Agents[0].Backend.Model = model
			require.Equal(t, !reasons, team.ThinksFirst("agent_a"))
			team.Agents[0].Backend.Params = map[string]any{"reasoning_effort": "low"}
			require.False(t, team.ThinksFirst("agent_a"), "its params ask for reasoning")
			team.Orchestrator.ThinkFirst = thinkOn
			require.True(t, team.ThinksFirst("agent_a"))
			team.Agents[0].Backend = Backend{Model: model}
			team.Orchestrator.ThinkFirst = thinkOff
			require.False(t, team.ThinksFirst("agent_a"))
		})
	}
	for _, params := range []map[string]any{
		{"reasoning_effort": "none"},
		{"enable_thinking": false},
		{"thinking": map[string]any{"type": "disabled"}},
		{"reasoning": map[string]any{"enabled": false}},
		{"reasoning": map[string]any{"effort": "none"}},
		{"thinking_budget": 0},
		{"chat_template_kwargs": map[string]any{"enable_thinking": false}},
	} {
		team := Default()
		team.Agents[0].Backend.Model = "qwen3:8b"
		team.Agents[0].Backend.Params = params
		require.True(t, team.ThinksFirst("agent_a"), "%v switches reasoning off", params)
	}
	team := Default()
	team.Agents[0].Backend.Params = map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}}
	require.False(t, team.ThinksFirst("agent_a"))
	team = Default()
	team.Agents[0].Backend.Type = Offline
	require.False(t, team.ThinksFirst("agent_a"))
}
