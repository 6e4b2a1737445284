package config

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table has exactly the values that the key type accepts, and its addresses and variables are
// valid in a file.
func TestBackendTypes(t *testing.T) {
	t.Parallel()
	var names []string
	for _, b := range BackendTypes() {
		names = append(names, b.Name)
		d := newDecoder("", Local, teamType)
		d.checkBackend("", Backend{Type: b.Name, Model: "m", BaseURL: b.BaseURL, Provider: "p"})
		for _, variable := range b.KeyVariables {
			d.checkVariable("", variable)
		}
		require.Empty(t, d.problems, b.Name)
		require.Equal(t, b, Backend{Type: b.Name}.Known())
	}
	var kinds []string
	walkKeys(teamType, "", func(pattern string, r rule) {
		if pattern == "agents[].backend.type" {
			kinds = r.enum
		}
	})
	require.Equal(t, kinds, append(names, Offline, Recorded))
	require.Equal(t, names, slices.Compact(slices.Clone(names)))
}

func TestParse_settingsOfAServer(t *testing.T) {
	t.Parallel()
	team := parse(t, `
agents:
  - id: agent_a
    backend:
      type: llamacpp
      model: m
      context_window: 32768
      price_per_million: {input: 0, cached_input: 0, output: 0}
      silent_timeout_seconds: 900
      max_concurrent_calls: 1
  - id: agent_b
    backend: {model: m, context_window: null, price_per_million: , silent_timeout_seconds: null, max_concurrent_calls: null}
`)
	require.Equal(t, Backend{
		Type: "llamacpp", Model: "m", ContextWindow: new(32768), SilentTimeoutSeconds: new(900), MaxConcurrentCalls: new(1),
		PricePerMillion: Price{Input: new(0.0), CachedInput: new(0.0), Output: new(0.0)},
	}, team.Agents[0].Backend)
	require.True(t, team.Agents[0].Backend.PricePerMillion.Known(), "0 is a price")
	require.Equal(t, Backend{Type: OpenAI, Model: "m"}, team.Agents[1].Backend)

	canonical, err := team.Canonical()
	require.NoError(t, err)
	again, err := Parse("team.json", canonical, Local)
	require.NoError(t, err)
	require.Equal(t, team, again)
	require.NotContains(t, string(canonical[len(canonical)/2:]), "max_concurrent_calls", "teams without the keys keep their hash")
}

// What stands before the first colon is a kind only if there is one of that name.
func TestParseModels(t *testing.T) {
	t.Parallel()
	of := func(kind, model string) Backend { return Backend{Type: kind, Model: model} }
	for _, tt := range []struct {
		lists []string
		size  int
		kind  string
		want  []Backend
	}{
		{lists: []string{"gpt-5.2"}, want: slices.Repeat([]Backend{of(OpenAI, "gpt-5.2")}, 3)},
		{lists: []string{"anthropic:claude-sonnet-4-5"}, size: 1, want: []Backend{of("anthropic", "claude-sonnet-4-5")}},
		{lists: []string{"claude-sonnet-4-5"}, size: 2, kind: "anthropic", want: slices.Repeat([]Backend{of("anthropic", "claude-sonnet-4-5")}, 2)},
		{lists: []string{"llama3.2:3b, ollama:llama3.2:3b"}, want: []Backend{of(OpenAI, "llama3.2:3b"), of("ollama", "llama3.2:3b")}},
		{lists: []string{"a", "b,a"}, want: []Backend{of(OpenAI, "a"), of(OpenAI, "b"), of(OpenAI, "a")}},
		{lists: []string{"anthropic", ":x"}, want: []Backend{of(OpenAI, "anthropic"), of(OpenAI, ":x")}},
		{lists: []string{"a", "b"}, size: 2, want: []Backend{of(OpenAI, "a"), of(OpenAI, "b")}},
	} {
		got, err := ParseModels(tt.lists, tt.size, Local, cmp.Or(tt.kind, OpenAI))
		require.NoError(t, err, tt.lists)
		require.Equal(t, tt.want, got, tt.lists)
	}

	onCluster, err := ParseModels([]string{"house:llama3.2:3b,mistral:large,gpt-5.2,hf.co/a/b:Q4,offline:x"}, 0, Cluster, OpenAI)
	require.NoError(t, err)
	require.Equal(t, []Backend{
		{Type: OpenAI, Provider: "house", Model: "llama3.2:3b"},
		{Type: "mistral", Provider: "mistral", Model: "large"},
		of(OpenAI, "gpt-5.2"), of(OpenAI, "hf.co/a/b:Q4"), of(Offline, "x"),
	}, onCluster)
	team := TeamOf(onCluster)
	canonical, err := team.Canonical()
	require.NoError(t, err)
	read, err := Parse("team.json", canonical, Cluster)
	require.NoError(t, err, "the workers accept it")
	require.Equal(t, team, read)
}

func TestParseModels_problems(t *testing.T) {
	t.Parallel()
	for lists, says := range map[string]string{
		"":                             `"" names no model; write [KIND:]NAME, and a comma`,
		"a,,b":                         `"" names no model`,
		":":                            `":" names no model`,
		"claude-code:x":                "claude-code is no kind of a model on a service in this version; there are openai, anthropic",
		"recorded:x":                   "recorded is no kind of a model on a service",
		"anthropic:":                   `"anthropic:" names no model`,
		"azure:gpt":                    "the address of azure is your own",
		"a\x1bb":                       "control character",
		"sk-abcdefghijklmnop":          "looks like an API key (not shown)",
		"openai:sk-abcdefghijklmno":    "looks like an API key (not shown)",
		"a" + strings.Repeat(",a", 26): "a team of 27 is too large",
	} {
		_, err := ParseModels([]string{lists}, 0, Local, OpenAI)
		require.ErrorContains(t, err, says, lists)
		require.NotContains(t, err.Error(), "abcdef", lists)
	}
	_, err := ParseModels([]string{"a,b"}, 3, Local, OpenAI)
	require.EqualError(t, err, "2 models for a team of 3; name one model, or one for each member")
}
