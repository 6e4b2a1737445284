package massgen

import (
	"cmp"
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

	hosts string // of a chatcompletion backend, by which MassGen recognizes the service

	// agent is the program that the type runs; conclave's tools replace the program's own.
	agent string
}

// kinds follow MassGen 0.1; their addresses, variables and models are its defaults.
var kinds = []kind{
	{name: "openai", as: "openai", hosts: "openai.com", model: "gpt-5.4"},
	{name: "claude", as: "anthropic", model: "claude-opus-4-6"},
	{name: "gemini", as: "gemini", model: "gemini-3-flash-preview"},
	{name: "grok", as: "xai", model: "grok-4.20-0309-reasoning"},
	{name: "azure_openai", as: "azure", model: "gpt-4o"},
	{name: "chatcompletion", as: "openai"},
	{name: "inference", as: "openai"},
	{name: "lmstudio", as: "lmstudio"},
	{name: "vllm", as: "vllm"},
	{name: "sglang", as: "sglang"},
	{name: "openrouter", as: "openrouter", hosts: "openrouter.ai"},
	{name: "groq", as: "groq", hosts: "groq.com", model: "llama-3.3-70b-versatile"},
	{name: "together", as: "together", hosts: "together.xyz together.ai", model: "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"},
	{name: "cerebras", as: "openai", hosts: "cerebras.ai", baseURL: "https://api.cerebras.ai/v1", keyVariable: "CEREBRAS_API_KEY", model: "llama-3.3-70b"},
	{name: "fireworks", as: "openai", hosts: "fireworks.ai", baseURL: "https://api.fireworks.ai/inference/v1", keyVariable: "FIREWORKS_API_KEY", model: "accounts/fireworks/models/llama-v3p3-70b-instruct"},
	{name: "moonshot", as: "openai", hosts: "moonshot.ai moonshot.cn", baseURL: "https://api.moonshot.cn/v1", keyVariable: "MOONSHOT_API_KEY", model: "moonshot-v1-128k"},
	{name: "nvidia_nim", as: "openai", hosts: "nvidia.com", baseURL: "https://integrate.api.nvidia.com/v1", keyVariable: "NGC_API_KEY", model: "moonshotai/kimi-k2.5"},
	{name: "nebius", as: "openai", hosts: "nebius.com nebius.ai", baseURL: "https://api.studio.nebius.ai/v1", keyVariable: "NEBIUS_API_KEY", model: "Qwen/Qwen3-4B-fast"},
	{name: "qwen", as: "openai", hosts: "aliyuncs.com", baseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", keyVariable: "QWEN_API_KEY", model: "qwen-max"},
	{name: "zai", as: "openai", hosts: "z.ai bigmodel.cn", baseURL: "https://api.z.ai/api/paas/v4", keyVariable: "ZAI_API_KEY", model: "glm-4.5"},
	{name: "poe", as: "openai", hosts: "poe.com", baseURL: "https://api.poe.com/v1", keyVariable: "POE_API_KEY"},
	{name: "uitars", as: "openai", keyVariable: "UI_TARS_API_KEY", model: "ui-tars-1.5"},
	{name: "claude_code", as: "anthropic", model: "claude-opus-4-6", agent: "Claude Code"},
	{name: "codex", as: "openai", model: "gpt-5.4", agent: "Codex"},
	{name: "gemini_cli", as: "gemini", model: "gemini-3.1-pro-preview", agent: "the Gemini CLI"},
	{name: "antigravity_cli", as: "gemini", model: "gemini-3.1-pro-preview", agent: "the Antigravity CLI"},
	{name: "copilot", as: "openai", model: "gpt-5-mini", agent: "GitHub Copilot"},
	{name: "ag2", as: "openai", agent: "AG2"},
	{name: "autogen", as: "openai", agent: "AG2"},
}

func kindOf(name string) (kind, bool) {
	for _, k := range kinds {
		if k.name == strings.ToLower(name) {
			return k, true
		}
	}
	return kind{}, false
}

// variableOf returns the variable of the key for an address, or "" if the address is unknown.
func variableOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	for _, k := range kinds {
		for suffix := range strings.FieldsSeq(k.hosts) {
			if host := u.Hostname(); host == suffix || strings.HasSuffix(host, "."+suffix) {
				return cmp.Or(k.keyVariable, keyVariable(k.as))
			}
		}
	}
	return ""
}

func typeAt(address string) string {
	for _, t := range config.BackendTypes() {
		if t.BaseURL != "" && !t.Local && t.BaseURL == strings.TrimSuffix(address, "/") {
			return t.Name
		}
	}
	return ""
}

// typeOf returns the type of backend for a model. The models of Copilot come from several
// vendors; their names tell which.
func typeOf(k kind, model string) string {
	switch {
	case k.name == "copilot" && strings.HasPrefix(model, "claude"):
		return "anthropic"
	case k.name == "copilot" && strings.HasPrefix(model, "gemini"):
		return "gemini"
	}
	return k.as
}

func isType(name string) bool {
	return name == config.Offline || slices.ContainsFunc(config.BackendTypes(), func(t config.BackendType) bool { return t.Name == name })
}

func keyVariable(name string) string {
	if known := (config.Backend{Type: name}).Known(); known.Name == name && len(known.KeyVariables) > 0 {
		return known.KeyVariables[0]
	}
	return ""
}
