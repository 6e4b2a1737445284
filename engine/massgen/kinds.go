package massgen

import (
	"net/url"
	"slices"
	"strings"

	"conclave/engine/config"
)

// kind is a type of backend in MassGen with its counterpart in conclave.
type kind struct {
	name string // name in MassGen
	as   string // type in conclave

	// Set for services without a type of their own in conclave.
	baseURL     string
	keyVariable string

	model string // MassGen's default, for a backend without a model; empty if it has none

	// agent is the program that the type runs; conclave's tools replace the program's own.
	agent string
}

// kinds follow MassGen 0.1; their addresses, variables and models are its defaults.
var kinds = []kind{
	{name: "openai", as: "openai", model: "gpt-5.4"},
	{name: "claude", as: "anthropic", model: "claude-opus-4-6"},
	{name: "gemini", as: "gemini", model: "gemini-3-flash-preview"},
	{name: "grok", as: "xai", model: "grok-4.20-0309-reasoning"},
	{name: "azure_openai", as: "azure", model: "gpt-4o"},
	{name: "chatcompletion", as: "openai"},
	{name: "inference", as: "openai"},
	{name: "lmstudio", as: "lmstudio"},
	{name: "vllm", as: "vllm"},
	{name: "sglang", as: "sglang"},
	{name: "openrouter", as: "openrouter"},
	{name: "groq", as: "groq", model: "llama-3.3-70b-versatile"},
	{name: "together", as: "together", model: "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"},
	{name: "cerebras", as: "openai", baseURL: "https://api.cerebras.ai/v1", keyVariable: "CEREBRAS_API_KEY", model: "llama-3.3-70b"},
	{name: "fireworks", as: "openai", baseURL: "https://api.fireworks.ai/inference/v1", keyVariable: "FIREWORKS_API_KEY", model: "accounts/fireworks/models/llama-v3p3-70b-instruct"},
	{name: "moonshot", as: "openai", baseURL: "https://api.moonshot.cn/v1", keyVariable: "MOONSHOT_API_KEY", model: "moonshot-v1-128k"},
	{name: "nvidia_nim", as: "openai", baseURL: "https://integrate.api.nvidia.com/v1", keyVariable: "NGC_API_KEY", model: "moonshotai/kimi-k2.5"},
	{name: "nebius", as: "openai", baseURL: "https://api.studio.nebius.ai/v1", keyVariable: "NEBIUS_API_KEY", model: "Qwen/Qwen3-4B-fast"},
	{name: "qwen", as: "openai", baseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", keyVariable: "QWEN_API_KEY", model: "qwen-max"},
	{name: "zai", as: "openai", baseURL: "https://api.z.ai/api/paas/v4", keyVariable: "ZAI_API_KEY", model: "glm-4.5"},
	{name: "poe", as: "openai", baseURL: "https://api.poe.com/v1", keyVariable: "POE_API_KEY"},
	{name: "uitars", as: "openai", keyVariable: "UI_TARS_API_KEY", model: "ui-tars-1.5"},
	{name: "claude_code", as: "anthropic", model: "claude-opus-4-6", agent: "Claude Code"},
	{name: "codex", as: "openai", model: "gpt-5.4", agent: "Codex"},
	{name: "gemini_cli", as: "gemini", model: "gemini-3.1-pro-preview", agent: "the Gemini CLI"},
	{name: "antigravity_cli", as: "gemini", model: "gemini-3.1-pro-preview", agent: "the Antigravity CLI"},
	{name: "copilot", as: "openai", model: "gpt-5-mini", agent: "GitHub Copilot"},
	{name: "ag2", as: "openai", agent: "AG2"},
	{name: "autogen", as: "openai", agent: "AG2"},
}

// hosts are the services that MassGen recognizes by the address of a chatcompletion
// backend, each with the variable of its key.
var hosts = []struct{ suffix, variable string }{
	{"cerebras.ai", "CEREBRAS_API_KEY"},
	{"together.xyz", "TOGETHER_API_KEY"},
	{"together.ai", "TOGETHER_API_KEY"},
	{"fireworks.ai", "FIREWORKS_API_KEY"},
	{"groq.com", "GROQ_API_KEY"},
	{"nebius.com", "NEBIUS_API_KEY"},
	{"nebius.ai", "NEBIUS_API_KEY"},
	{"openrouter.ai", "OPENROUTER_API_KEY"},
	{"z.ai", "ZAI_API_KEY"},
	{"bigmodel.cn", "ZAI_API_KEY"},
	{"moonshot.ai", "MOONSHOT_API_KEY"},
	{"moonshot.cn", "MOONSHOT_API_KEY"},
	{"nvidia.com", "NGC_API_KEY"},
	{"poe.com", "POE_API_KEY"},
	{"aliyuncs.com", "QWEN_API_KEY"},
	{"openai.com", "OPENAI_API_KEY"},
}

func kindOf(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == strings.ToLower(name) })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// variableOf returns the variable of the key for an address, or "" if the address is
// unknown.
func variableOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	for _, h := range hosts {
		if host := u.Hostname(); host == h.suffix || strings.HasSuffix(host, "."+h.suffix) {
			return h.variable
		}
	}
	return ""
}

// typeAt returns the type of conclave with this address, or "".
func typeAt(address string) string {
	for _, t := range config.BackendTypes() {
		if t.BaseURL != "" && !t.Local && t.BaseURL == strings.TrimSuffix(address, "/") {
			return t.Name
		}
	}
	return ""
}
