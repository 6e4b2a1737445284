package config

import (
	"slices"
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
