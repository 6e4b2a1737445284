package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"conclave/engine/text"
)

// BackendType is a service or a server program of the Chat Completions API whose address,
// key and peculiarities are known.
type BackendType struct {
	Name string // the value of backend.type

	// BaseURL is the address; it is empty if every customer has a different one.
	BaseURL string

	// KeyVariables name the environment variables of the service's own clients. The first
	// variable that is set holds the key. A server without variables needs no key.
	KeyVariables []string

	// Local marks servers that people run themselves. Their calls are free at a loopback
	// address unless a price is configured.
	Local bool

	KeyHeader       string // the header that carries the key; empty for Authorization
	NoStreamOptions bool   // requests with stream_options are refused, but streams include their usage without it
	NativeList      bool   // models are listed by the service's own API, not that of Chat Completions
	Wire            string // the service's own form of requests; empty for Chat Completions
	ShortCallIDs    bool   // IDs of tool calls must be nine letters and digits

	// Tools explains how to make a model call tools.
	Tools string
}

// backendTypes are the known types, in the order in which messages list them. Their addresses
// and variables come from the services' documentation; docs/models.md names the types that
// have been tried.
var backendTypes = []BackendType{
	{Name: OpenAI, BaseURL: "https://api.openai.com/v1", KeyVariables: []string{"OPENAI_API_KEY"}, Wire: "responses"},
	{Name: "anthropic", BaseURL: "https://api.anthropic.com/v1", KeyVariables: []string{"ANTHROPIC_API_KEY"}, NativeList: true, Wire: "messages"},
	{Name: "gemini", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", KeyVariables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{
		Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", KeyVariables: []string{"OPENROUTER_API_KEY"},
		Tools: "choose one of its models that supports tools",
	},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyVariables: []string{"GROQ_API_KEY"}},
	{
		Name: "mistral", BaseURL: "https://api.mistral.ai/v1", KeyVariables: []string{"MISTRAL_API_KEY"},
		NoStreamOptions: true, ShortCallIDs: true,
	},
	{Name: "xai", BaseURL: "https://api.x.ai/v1", KeyVariables: []string{"XAI_API_KEY"}},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", KeyVariables: []string{"DEEPSEEK_API_KEY"}},
	{
		Name: "together", BaseURL: "https://api.together.ai/v1", KeyVariables: []string{"TOGETHER_API_KEY"},
		Tools: "choose one of its models that supports function calling",
	},
	{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1", Local: true, Tools: "choose a model that `ollama show` lists with the capability tools"},
	{
		Name: "vllm", BaseURL: "http://127.0.0.1:8000/v1", Local: true,
		Tools: "start the server with --enable-auto-tool-choice and the --tool-call-parser of the model",
	},
	{Name: "sglang", BaseURL: "http://127.0.0.1:30000/v1", Local: true, Tools: "start the server with the --tool-call-parser of the model"},
	{Name: "lmstudio", BaseURL: "http://127.0.0.1:1234/v1", Local: true, Tools: "choose a model that is marked as trained for tool use"},
	{
		Name: "llamacpp", BaseURL: "http://127.0.0.1:8080/v1", Local: true,
		Tools: "start the server with --jinja and a model whose chat template has tools",
	},
	{Name: "azure", KeyVariables: []string{"AZURE_OPENAI_API_KEY"}, KeyHeader: "Api-Key"},
}

// ListedTypes returns the names of the types that have an address, at which their models are listed.
func ListedTypes() (names []string) {
	for _, t := range backendTypes {
		if t.BaseURL != "" {
			names = append(names, t.Name)
		}
	}
	return names
}

// BackendTypes returns the known types besides offline and recorded.
func BackendTypes() []BackendType { return slices.Clone(backendTypes) }

// Known returns the backend's type. The default, also for a Backend that was not read from
// a file, is openai.
func (b Backend) Known() BackendType {
	i := slices.IndexFunc(backendTypes, func(t BackendType) bool { return t.Name == b.Type })
	return backendTypes[max(i, 0)]
}

// ParseModels reads the models of --model, [KIND:]NAME in lists separated by commas, and returns a
// backend for each member of a team: size times a single model, by default three times, or several
// models once each; size is 0 if it was not given. The word before the first colon is a kind
// only if there is such a type; in a session on a cluster it is the name of a provider instead,
// which only the workers know. Kind is the type of a model that is written without one.
func ParseModels(lists []string, size int, reach Reach, kind string) ([]Backend, error) {
	var backends []Backend
	for word := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		b, err := parseModel(strings.TrimSpace(word), reach, kind)
		if err != nil {
			return nil, fmt.Errorf("--model: %w", err)
		}
		backends = append(backends, b)
	}
	named := len(backends)
	if named == 1 {
		backends = slices.Repeat(backends, cmp.Or(size, usualSize))
	}
	switch {
	case len(backends) > MaxAgents:
		return nil, fmt.Errorf("a team of %d is too large; it has at most %d members", len(backends), MaxAgents)
	case size > 0 && size != len(backends):
		return nil, fmt.Errorf("%d models for a team of %d; name one model, or one for each member", named, size)
	}
	return backends, nil
}

// otherKinds are kinds of members that --model cannot name.
var otherKinds = []string{Recorded, "acp", "qwen-code", "opencode", "gemini-cli", "codex", "claude-code"}

func parseModel(word string, reach Reach, kind string) (Backend, error) {
	b := Backend{Type: kind, Model: word}
	prefix, name, cut := strings.Cut(word, ":")
	known := slices.ContainsFunc(backendTypes, func(t BackendType) bool { return t.Name == prefix }) || prefix == Offline
	switch {
	case cut && reach.cluster && prefix != "" && prefix != Offline && !strings.Contains(prefix, "/"):
		b = Backend{Type: OpenAI, Model: name, Provider: prefix}
		if known {
			b.Type = prefix
		}
	case cut && known:
		b = Backend{Type: prefix, Model: name}
	}
	switch {
	case text.LooksSecret(word) || text.LooksSecret(b.Model):
		return b, errors.New("this looks like an API key (not shown); set the variable that holds the key, and name a model as [KIND:]NAME")
	case strings.ContainsFunc(word, unicode.IsControl):
		return b, fmt.Errorf("%q has a control character; name a model as [KIND:]NAME", word)
	case cut && !reach.cluster && slices.Contains(otherKinds, prefix):
		return b, fmt.Errorf("%s is no kind of a model on a service in this version; there are %s", prefix, strings.Join(ListedTypes(), ", "))
	case strings.Trim(b.Model, ":") == "":
		return b, fmt.Errorf("%q names no model; write [KIND:]NAME, and a comma between two", word)
	case !reach.cluster && b.Type != Offline && b.Known().BaseURL == "":
		return b, fmt.Errorf("the address of %s is your own, which a file names: `conclave config init` writes one", b.Type)
	}
	return b, nil
}

// IsOffline reports whether no model server is asked: the built-in model replies, or recorded answers
// do.
func (b Backend) IsOffline() bool { return b.Type == Offline || b.Type == Recorded }

// anyServerTools is the remedy for a server of unknown type.
const anyServerTools = "check that its server passes tools on (llama.cpp: --jinja and a template with tools; " +
	"vLLM: --enable-auto-tool-choice; Ollama: a model with the capability tools)"

// ToolsRemedy explains how to make the model call tools.
func (b Backend) ToolsRemedy() string {
	known := b.Known()
	switch {
	case known.Tools != "":
		return known.Tools
	case known.Name == OpenAI && b.BaseURL != "" && b.BaseURL != known.BaseURL:
		return anyServerTools
	}
	return "choose a model that can call tools"
}

// Price is in US dollars per million tokens.
type Price struct {
	Input       *float64 `json:"input,omitempty" min:"0" max:"1000000" doc:"Input tokens that were not cached."`
	CachedInput *float64 `json:"cached_input,omitempty" min:"0" max:"1000000" doc:"Cached input tokens; as input if not given."`
	Output      *float64 `json:"output,omitempty" min:"0" max:"1000000" doc:"Output tokens, reasoning included."`
}

// Known reports whether costs can be computed: Input and Output are set; both may be 0.
func (p Price) Known() bool { return p.Input != nil && p.Output != nil }

// Price checks that a price is complete or empty.
func (d *Decoder) Price(key string, p Price) {
	switch {
	case p.Known() || p == Price{}:
	case p.Input == nil:
		d.Report(key, "no price for input; a cost needs the prices of input and output")
	default:
		d.Report(key, "no price for output; a cost needs the prices of input and output")
	}
}

func (d *Decoder) checkBackend(key string, b Backend) {
	if !b.IsOffline() && strings.TrimSpace(b.Model) == "" && !d.invalid[key+".type"] {
		d.Report(key+".model", "missing; name the model as the server knows it, such as %s", defaultModel)
	}
	d.checkName(key+".model", b.Model)
	d.checkName(key+".provider", b.Provider)
	d.API(key, b.BaseURL, b.APIKeyEnv, b.Params)
	d.Price(key+".price_per_million", b.PricePerMillion)
	switch {
	case b.Type == Recorded:
		d.checkRecorded(key+".params", b.Params)
	case b.Type == Offline && len(b.Params) > 0:
		d.checkSkill(key+".params", b.Params)
	}
	switch {
	case d.reach.cluster:
		d.checkBackendReach(key, b)
	case b.Known().BaseURL == "" && b.BaseURL == "" && b.Provider == "":
		d.Report(key+".base_url", "missing; the address of %s is your own, such as https://NAME.openai.azure.com/openai/v1, with api_key_env: %s", b.Type, b.Known().KeyVariables[0])
	}
}

// checkBackendReach refuses definitions of model servers in a session on a cluster, where the
// operator pays for the calls and limits them.
func (d *Decoder) checkBackendReach(key string, b Backend) {
	const refusal = "a session on a cluster, or of another client, can name the worker's providers, not define one; set backend.provider to a provider of the worker's configuration"
	for name, set := range map[string]bool{
		"base_url": b.BaseURL != "", "api_key_env": b.APIKeyEnv != "",
		"context_window": b.ContextWindow != nil, "price_per_million": b.PricePerMillion != Price{},
		"silent_timeout_seconds": b.SilentTimeoutSeconds != nil, "max_concurrent_calls": b.MaxConcurrentCalls != nil,
	} {
		if set {
			d.Report(key+"."+name, "not accepted here: %s", refusal)
		}
	}
	if t := b.Known(); b.Provider == "" && (t.Local || t.BaseURL == "") {
		d.Report(key+".type", "%s stands for a server of your own: %s", b.Type, refusal)
	}
}

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
