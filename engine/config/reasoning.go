package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Values of think_first.
const (
	thinkOn  = "on"
	thinkOff = "off"
)

// reasoningParams are the request parameters that switch on reasoning before a reply.
var reasoningParams = []string{"reasoning", "reasoning_effort", "thinking", "thinking_budget", "enable_thinking", "include_reasoning"}

// reasoningModels match the names, without the vendor's prefix, of models that reason before they reply.
var reasoningModels = regexp.MustCompile(`^(o[1-9]\b|gpt-[5-9]|gpt-oss|claude-(opus|sonnet|haiku)-[4-9]|gemini-(2\.5|[3-9])|grok-([4-9]|3-mini)|` +
	`deepseek-(r[1-9]|reasoner|v3\.[1-9])|qwq|qwen3|magistral|glm-[4-9]\.[5-9]|kimi-k2-thinking|minimax-m[1-9]|nemotron)|` +
	`(^|[-_.:])(r1|think|thinking|thinker|reasoning|reasoner)([-_.:]|$)`)

// ThinksFirst reports whether the prompt asks the agent to work out its reply in text before it calls a tool.
// It follows orchestrator.think_first; with auto, it is true unless the model is known to reason by itself.
func (t Team) ThinksFirst(agent string) bool {
	switch t.Orchestrator.ThinkFirst {
	case thinkOn, thinkOff:
		return t.Orchestrator.ThinkFirst == thinkOn
	}
	a, ok := t.Agent(agent)
	return ok && !a.Backend.isReasoning()
}

// isReasoning reports whether the backend's model is known to reason before it replies. Params
// that switch reasoning off outweigh the model's name.
func (b Backend) isReasoning() bool {
	on, off := false, false
	params := maps.Clone(b.Params)
	if nested, ok := b.Params["chat_template_kwargs"].(map[string]any); ok {
		maps.Copy(params, nested) // vLLM, SGLang and llama.cpp take them in this form
	}
	for param, value := range params {
		if slices.Contains(reasoningParams, param) {
			disabled := switchesOff(value)
			on, off = on || !disabled, off || disabled
		}
	}
	if on || off {
		return on || b.Type == Offline
	}
	name := strings.ToLower(b.Model)
	name = name[strings.LastIndex(name, "/")+1:]
	return b.Type == Offline || reasoningModels.MatchString(name)
}

// switchesOff reports whether a value of a reasoning parameter disables reasoning: false, 0,
// none, disabled, or an object that says so.
func switchesOff(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return slices.Contains([]string{"none", "off", "false", "disabled"}, strings.ToLower(v))
	case map[string]any:
		for _, key := range []string{"enabled", "effort", "type", "max_tokens", "budget_tokens", "thinking_budget"} {
			if inner, given := v[key]; given && switchesOff(inner) {
				return true
			}
		}
		return false
	}
	n, err := strconv.ParseFloat(fmt.Sprint(value), 64)
	return err == nil && n == 0
}
