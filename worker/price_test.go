package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/llm"
)

// says is a model with a constant reply.
type says struct {
	usage llm.Usage
	err   error
}

func (s says) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Usage: s.usage}, s.err
}

func TestPriceOf(t *testing.T) {
	t.Parallel()
	full := priceOf(config.Backend{PricePerMillion: config.Price{Input: number(1.25), CachedInput: number(0.125), Output: number(10)}})
	uncached := priceOf(config.Backend{PricePerMillion: config.Price{Input: number(3), Output: number(15)}})
	free := priceOf(config.Backend{PricePerMillion: config.Price{Input: number(0), Output: number(0)}})
	for name, tt := range map[string]struct {
		price func(llm.Usage) float64
		usage llm.Usage
		want  float64
	}{
		"a million of each":           {full, llm.Usage{InputTokens: 1e6, OutputTokens: 1e6, ModelCalls: 1}, 11.25},
		"cached input is part of it":  {full, llm.Usage{InputTokens: 1e6, CachedInputTokens: 4e5, ModelCalls: 1}, 0.75 + 0.05},
		"no price of cached input":    {uncached, llm.Usage{InputTokens: 1e6, CachedInputTokens: 4e5, ModelCalls: 1}, 3},
		"reasoning is part of output": {full, llm.Usage{OutputTokens: 1e6, ReasoningTokens: 9e5, ModelCalls: 1}, 10},
		"free, the operator says":     {free, llm.Usage{InputTokens: 1e6, OutputTokens: 1e6, ModelCalls: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, tt.want, tt.price(tt.usage), 1e-9)
		})
	}
}

// The operator's price takes precedence over the table's, which applies only to the
// providers' own addresses. All other prices are unknown.
func TestPriced(t *testing.T) {
	t.Parallel()
	const own = "https://api.openai.com/v1"
	m := Models{
		Getenv: environment(nil),
		Providers: newProviders(map[string]Provider{
			"paid":  {BaseURL: "http://h/v1", Price: config.Price{Input: number(2), Output: number(10)}},
			"half":  {BaseURL: "http://h/v1", Price: config.Price{Input: number(2)}},
			"house": {BaseURL: own, Price: config.Price{Input: number(1), Output: number(1)}, ContextWindow: count(64000)},
			"list":  {BaseURL: own},
		}),
	}
	local := m
	local.Getenv = environment(map[string]string{baseURLVariable: "http://127.0.0.1:11434/v1"})
	for name, tt := range map[string]struct {
		models  Models
		backend config.Backend
		million float64 // input tokens, in dollars; 0 for unknown
		window  int
	}{
		"a provider's price":             {m, config.Backend{Provider: "paid", Model: "m"}, 2, 0},
		"half a price":                   {m, config.Backend{Provider: "half", Model: "m"}, 0, 0},
		"no such provider":               {m, config.Backend{Provider: "gone", Model: "gpt-5.2"}, 0, 0},
		"the operator before the table":  {m, config.Backend{Provider: "house", Model: "gpt-5.2"}, 1, 64000},
		"the table":                      {m, config.Backend{Provider: "list", Model: "gpt-5.2"}, 1.75, 400000},
		"the table, at the usual server": {m, config.Backend{Model: "gpt-5.2"}, 1.75, 400000},
		"a model that it does not know":  {m, config.Backend{Provider: "list", Model: "m"}, 0, 0},
		"a local server":                 {local, config.Backend{Model: "gpt-5.2"}, 0, 0},
		"a server of the user's own":     {m, config.Backend{BaseURL: "http://127.0.0.1:8000/v1", Model: "gpt-5.2"}, 0, 0},
		"the table, by an address":       {m, config.Backend{BaseURL: own, Model: "gpt-5.2"}, 1.75, 400000},
		"the backend before all":         {m, config.Backend{Provider: "house", Model: "gpt-5.2", PricePerMillion: config.Price{Input: number(3), Output: number(4)}, ContextWindow: count(4096)}, 3, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agent(tt.backend)
			require.Equal(t, tt.million != 0, tt.models.Priced(a))
			tokens, source := tt.models.WindowFrom(a)
			require.Equal(t, tt.window, tokens)
			require.Equal(t, map[int]string{0: "", 4096: Configured, 64000: Configured, 400000: Tabled}[tt.window], source)
			if backend, _, err := tt.models.completeBackend(a.Backend); err == nil && tt.million != 0 {
				require.InDelta(t, tt.million, priceOf(backend)(llm.Usage{InputTokens: 1e6}), 1e-9)
			}
		})
	}
	offline := config.Agent{ID: "a", Backend: config.Backend{Type: config.Offline}}
	require.True(t, m.Priced(offline), "it is free")
	require.Zero(t, m.Window(offline), "it takes anything")
}

func TestCheckPrices_limitInDollarsNeedsPrices(t *testing.T) {
	t.Parallel()
	m := Models{Getenv: environment(nil)}
	usd := 2.0
	team := config.Team{Agents: []config.Agent{
		agent(config.Backend{Model: "gpt-5.2"}),
		agent(config.Backend{Provider: "of another worker", Model: "m"}),
	}}
	team.Orchestrator.Budget.MaxCostUSD = &usd
	require.NoError(t, m.CheckPrices(team))

	team.Agents[0].Backend.BaseURL = "http://127.0.0.1:8000/v1"
	require.ErrorContains(t, m.CheckPrices(team), "the price of the model gpt-5.2 is unknown")
	require.NoError(t, m.CheckPrices(team.Offline()))

	team.Orchestrator.Budget.MaxCostUSD = nil
	require.NoError(t, m.CheckPrices(team))
}

// A server on the user's own machine costs nothing; the cost of one elsewhere is unknown.
func TestPriced_localServers(t *testing.T) {
	t.Parallel()
	zero := config.Price{Input: number(0), Output: number(0)}
	for name, tt := range map[string]struct {
		backend config.Backend
		free    bool
	}{
		"its own address":          {config.Backend{Type: "ollama"}, true},
		"another port":             {config.Backend{Type: "llamacpp", BaseURL: "http://localhost:9000/v1"}, true},
		"IPv6":                     {config.Backend{Type: "vllm", BaseURL: "http://[::1]:8000/v1"}, true},
		"another machine":          {config.Backend{Type: "vllm", BaseURL: "http://gpu:8000/v1"}, false},
		"another machine, said so": {config.Backend{Type: "vllm", BaseURL: "http://gpu:8000/v1", PricePerMillion: zero}, true},
		"any server, said so":      {config.Backend{Type: "openai", BaseURL: "http://127.0.0.1:1/v1", PricePerMillion: zero}, true},
		"any server":               {config.Backend{Type: "openai", BaseURL: "http://127.0.0.1:1/v1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.backend.Model = "m"
			m := Models{Getenv: environment(nil)}
			require.Equal(t, tt.free, m.Priced(config.Agent{ID: "a", Backend: tt.backend}))
			if price := priceOf(m.Resolve(tt.backend)); tt.free {
				require.Zero(t, price(llm.Usage{InputTokens: 1e6, OutputTokens: 1e6}))
			}
		})
	}
}

// A cost that the server reports takes precedence, whether or not the price is known.
func TestModel_serverReportsTheCost(t *testing.T) {
	t.Parallel()
	server := newCharging(t, `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"cost":0.5}`)
	for name, p := range map[string]Provider{
		"no price": {BaseURL: server},
		"a price":  {BaseURL: server, Price: config.Price{Input: number(2), Output: number(10)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Models{Getenv: environment(nil), Providers: newProviders(map[string]Provider{"house": p})}
			usage := ask(t, m, config.Backend{Provider: "house", Model: "m"})
			require.NotNil(t, usage.TotalUSD)
			require.InDelta(t, 0.5, *usage.TotalUSD, 1e-12)
		})
	}
}

func newCharging(t *testing.T, usage string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop",
			"message":{"role":"assistant","content":"yes"}}],"usage":%s}`, usage)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}
