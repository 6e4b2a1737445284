package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/llm"
)

const openaiPrices = "https://api.openai.com/v1"

func TestFind(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at, model string
		input     float64 // 0 for unknown
	}{
		"by its name":                        {openaiPrices, "gpt-5.2", 1.75},
		"with a date":                        {openaiPrices, "gpt-5.2-2025-12-11", 1.75},
		"with a date in digits":              {"https://api.anthropic.com/v1", "claude-sonnet-4-5-20250929", 3},
		"the latest":                         {"https://api.anthropic.com/v1/", "claude-3-5-haiku-latest", 0.8},
		"a snapshot with a price of its own": {openaiPrices, "gpt-4o-2024-05-13", 5},
		"other snapshots of it":              {openaiPrices, "gpt-4o-2024-08-06", 2.5},
		"the port of https":                  {"https://api.openai.com:443/v1", "gpt-5.2", 1.75},
		"a host in capitals":                 {"https://API.OpenAI.com/v1", "gpt-5.2", 1.75},
		"a name with a slash":                {"https://api.groq.com/openai/v1", "openai/gpt-oss-120b", 0.15},
		"the same model elsewhere":           {"https://api.cerebras.ai/v1", "gpt-oss-120b", 0.35},
		"at a router":                        {"https://openrouter.ai/api/v1", "openai/gpt-5.2", 1.75},
		"at a router, with a dot":            {"https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5", 3},

		"a model of tomorrow":          {openaiPrices, "gpt-99", 0},
		"a part of a name":             {openaiPrices, "gpt-5.2-turbo", 0},
		"a date alone":                 {openaiPrices, "-latest", 0},
		"no name":                      {openaiPrices, "", 0},
		"a local server of that name":  {"http://127.0.0.1:8000/v1", "gpt-5.2", 0},
		"another model of the router":  {"https://openrouter.ai/api/v1", "qwen/qwen3-32b", 0},
		"a variant at the router":      {"https://openrouter.ai/api/v1", "openai/gpt-5.2:free", 0},
		"no provider at the router":    {"https://openrouter.ai/api/v1", "gpt-5.2", 0},
		"another provider's model":     {"https://api.anthropic.com/v1", "gpt-5.2", 0},
		"a proxy":                      {"https://proxy.example.com/api.openai.com/v1", "gpt-5.2", 0},
		"a host that begins like it":   {"https://api.openai.com.example.com/v1", "gpt-5.2", 0},
		"its name before the host":     {"https://api.openai.com@example.com/v1", "gpt-5.2", 0},
		"another port":                 {"https://api.openai.com:8443/v1", "gpt-5.2", 0},
		"without encryption":           {"http://api.openai.com/v1", "gpt-5.2", 0},
		"no address":                   {"", "gpt-5.2", 0},
		"something that is no address": {"https://[", "gpt-5.2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, ok := FindTariff(tt.at, tt.model)
			require.Equal(t, tt.input != 0, ok)
			require.InDelta(t, tt.input, m.Input, 0)
		})
	}
}

func TestFind_defaultTeamHasAPrice(t *testing.T) {
	t.Parallel()
	for _, a := range config.Default().Agents {
		m, ok := FindTariff(openaiPrices, a.Backend.Model)
		require.True(t, ok, a.Backend.Model)
		require.Positive(t, m.ContextWindow)
	}
}

// Prices are positive and plausible.
func TestTable(t *testing.T) {
	t.Parallel()
	table, err := readTable(source)
	require.NoError(t, err)
	at, err := time.Parse(time.DateOnly, embedded().AsOf)
	require.NoError(t, err)
	require.False(t, at.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	models, hosts := 0, map[string]bool{}
	for _, p := range table.Providers {
		require.NotEmpty(t, p.Hosts, p.Name)
		for _, host := range p.Hosts {
			require.False(t, hosts[host], host)
			hosts[host] = true
		}
		for name, m := range p.Models {
			models++
			tariffs := []Tariff{m.Tariff}
			if m.Long != nil {
				require.Positive(t, m.Long.Above, name)
				require.Greater(t, m.Long.Input, m.Input, name)
				tariffs = append(tariffs, m.Long.Tariff)
			}
			for _, f := range tariffs {
				require.Positive(t, f.Input, name)
				require.GreaterOrEqual(t, f.Output, f.Input, name)
				require.Less(t, f.Output, 1000.0, name)
				if f.CachedInput != nil {
					require.Positive(t, *f.CachedInput, name)
					require.LessOrEqual(t, *f.CachedInput, f.Input, name)
				}
			}
			if m.ContextWindow != 0 {
				require.Greater(t, m.ContextWindow, 4096, name)
			}
		}
	}
	require.Greater(t, models, 80)
	for _, host := range table.Routers {
		require.False(t, hosts[host], host)
	}
	_, err = readTable([]byte("{"))
	require.Error(t, err)
}

func TestModel_Cost(t *testing.T) {
	t.Parallel()
	cached := 0.5
	m := entry{
		Tariff: Tariff{Input: 2, CachedInput: &cached, Output: 10},
		Long:   &long{Above: 1000, Tariff: Tariff{Input: 4, Output: 20}},
	}
	for name, tt := range map[string]struct {
		usage llm.Usage
		want  float64 // millionths of a dollar
	}{
		"nothing":                    {llm.Usage{}, 0},
		"input and output":           {llm.Usage{InputTokens: 1000, OutputTokens: 100}, 3000},
		"cached input is part of it": {llm.Usage{InputTokens: 1000, CachedInputTokens: 400}, 600*2 + 400*0.5},
		"more cached than there was": {llm.Usage{InputTokens: 1000, CachedInputTokens: 4000}, 500},
		"reasoning is part of it":    {llm.Usage{OutputTokens: 100, ReasoningTokens: 90}, 1000},
		"a long conversation":        {llm.Usage{InputTokens: 1001, OutputTokens: 100}, 1001*4 + 100*20},
		"whose cache has no price":   {llm.Usage{InputTokens: 1001, CachedInputTokens: 1001}, 1001 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, tt.want/1e6, m.Cost(tt.usage), 1e-12)
		})
	}
}
