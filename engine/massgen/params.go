package massgen

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"

	"conclave/engine/config"
)

// own carries conclave's own params over, to those that have moved there.
func (m *model) own(params entry) {
	if params.value.Kind != yaml.MappingNode {
		m.notes.drop(params, "not a mapping; it is left out")
		return
	}
	for _, e := range entries(params.value, params.path) {
		m.carry(section(m.backend, "params"), e.key, e)
	}
}

// param translates a key that is a parameter of the API. It leaves out every other key, since a
// service refuses unknown ones, and a guardrail sent as a parameter guards nothing.
func (m *model) param(e entry) {
	if _, other := backendKeys[e.key]; other || !slices.Contains(apiParams, e.key) {
		reason := cmp.Or(backendKeys[e.key], coordinationKeys[e.key], orchestratorKeys[e.key], unknownParam)
		if reserved(e.key) {
			reason = noCounterpart
		}
		m.leaveOut(map[string]string{e.key: reason}, e)
		return
	}
	params := section(m.backend, "params")
	switch {
	case e.key == "reasoning" && e.value.Kind == yaml.MappingNode && !m.atOpenRouter():
		m.reasoning(params, e)
	case e.key == "text" && e.value.Kind == yaml.MappingNode:
		m.text(params, e)
	case e.key == "extra_body" && e.value.Kind == yaml.MappingNode:
		for _, extra := range entries(e.value, e.path) {
			m.move(params, extra.key, extra, "moved to backend.params."+extra.key)
		}
	case e.key == "max_tokens" && m.kind.name == "openai" && m.address == "":
		m.move(params, "max_completion_tokens", e, "moved to backend.params.max_completion_tokens, the name of the limit for the newer models of OpenAI")
	default:
		m.move(params, e.key, e, "moved to backend.params."+e.key)
	}
	if len(params.Content) == 0 {
		m.backend.Content = m.backend.Content[:len(m.backend.Content)-2]
	}
}

func (m *model) atOpenRouter() bool {
	return m.kind.name == "openrouter" || variableOf(m.address) == "OPENROUTER_API_KEY"
}

// reasoning translates the object of the Responses API.
func (m *model) reasoning(params *yaml.Node, e entry) {
	for _, key := range entries(e.value, e.path) {
		switch key.key {
		case "effort":
			m.move(params, "reasoning_effort", key, "moved to backend.params.reasoning_effort")
		case "summary":
			m.notes.of(key, "belongs to the Responses API; the Chat Completions API has no summaries of thoughts")
		default:
			m.notes.drop(key, "%s", noCounterpart)
		}
	}
}

// text translates the object of the Responses API.
func (m *model) text(params *yaml.Node, e entry) {
	for _, key := range entries(e.value, e.path) {
		if key.key == "verbosity" {
			m.move(params, "verbosity", key, "moved to backend.params.verbosity")
			continue
		}
		m.notes.drop(key, "belongs to the Responses API; set response_format in backend.params for the Chat Completions API")
	}
}

// limitOnce leaves out one of the two limits of a reply's length, because servers refuse a request
// with both. OpenAI needs the newer one, and every other server takes the older one.
func (m *model) limitOnce() {
	kept, other := "max_tokens", "max_completion_tokens"
	if as := text(get(m.backend, "type")); as == config.OpenAI && get(m.backend, "base_url") == nil || as == "azure" {
		kept, other = other, kept
	}
	params := get(m.backend, "params")
	limit, second := get(params, kept), get(params, other)
	if limit == nil || second == nil {
		return
	}
	m.notes.forget(m.paths[second])
	m.notes.at(m.paths[second], second, "not carried over: %s sets the same limit, and is used", m.paths[limit])
	remove(params, other)
}
