package worker

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/llm"
)

//go:embed table.json
var source []byte

// Tariff is a price in US dollars per million tokens.
type Tariff struct {
	Input       float64  `json:"input"`
	CachedInput *float64 `json:"cached_input"` // equal to Input if nil
	Output      float64  `json:"output"`
}

// writeShare is the part of its price that input costs more if the service keeps it for later calls.
const writeShare = 0.25

// Cost returns the cost of calls. Input tokens include cached ones; output tokens include
// reasoning.
func (t Tariff) Cost(u llm.Usage) float64 {
	const perMillion = 1e-6
	cachedInput := t.Input
	if t.CachedInput != nil {
		cachedInput = *t.CachedInput
	}
	cached := min(u.CachedInputTokens, u.InputTokens)
	input := float64(u.InputTokens-cached) + writeShare*float64(min(u.CacheWriteTokens, u.InputTokens-cached))
	return perMillion * (input*t.Input + float64(cached)*cachedInput + float64(u.OutputTokens)*t.Output)
}

// entry is a model at its provider.
type entry struct {
	Tariff

	// ContextWindow is in tokens and includes the reply; 0 if it is unknown.
	ContextWindow int `json:"context_window"`

	Long *long `json:"long"` // nil for none
}

// long is the tariff for all tokens of a call that has more than Above input tokens.
type long struct {
	Above int64 `json:"above"`
	Tariff
}

// Cost returns the cost of one call in US dollars.
func (m entry) Cost(u llm.Usage) float64 {
	if m.Long != nil && u.InputTokens > m.Long.Above {
		return m.Long.Cost(u)
	}
	return m.Tariff.Cost(u)
}

// table is the content of table.json.
type table struct {
	AsOf      string           `json:"as_of"`   // date as YYYY-MM-DD
	Routers   []string         `json:"routers"` // hosts that sell calls at the providers' prices
	Providers []providerPrices `json:"providers"`
}

// provider lists the models that are sold at a provider's own hosts.
type providerPrices struct {
	Name   string           `json:"name"`
	Hosts  []string         `json:"hosts"`
	Prefix string           `json:"prefix"` // prefix of its models' names at a router; empty if others also sell them there
	Models map[string]entry `json:"models"`
}

// embedded decodes the table once. A test verifies that it can be decoded.
var embedded = sync.OnceValue(func() table {
	t, _ := readTable(source)
	return t
})

func readTable(data []byte) (table, error) {
	var t table
	if err := json.Unmarshal(data, &t); err != nil {
		return table{}, fmt.Errorf("read the table of prices: %w", err)
	}
	return t, nil
}

// snapshot matches a suffix of a name that selects a snapshot of a model.
var priceSnapshot = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// FindTariff looks up a model by the address of its server and its name, first by the full name,
// then without a final date or -latest. Only the providers' own addresses and routers have prices.
// At a router, the name begins with that of the provider, and a version may contain dots or dashes.
func FindTariff(baseURL, model string) (entry, bool) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "https" || u.Port() != "" && u.Port() != "443" {
		return entry{}, false
	}
	host, t := strings.ToLower(u.Hostname()), embedded()
	if slices.Contains(t.Routers, host) {
		return t.findRouted(model)
	}
	for _, p := range t.Providers {
		if slices.Contains(p.Hosts, host) {
			return p.findModel(model)
		}
	}
	return entry{}, false
}

func (t table) findRouted(model string) (entry, bool) {
	prefix, name, _ := strings.Cut(model, "/")
	for _, p := range t.Providers {
		if p.Prefix == "" || p.Prefix != prefix {
			continue
		}
		if m, ok := p.findModel(name); ok {
			return m, ok
		}
		return p.findModel(strings.ReplaceAll(name, ".", "-"))
	}
	return entry{}, false
}

func (p providerPrices) findModel(name string) (entry, bool) {
	m, ok := p.Models[name]
	if !ok {
		m, ok = p.Models[priceSnapshot.ReplaceAllString(name, "")]
	}
	return m, ok
}

// priceOf returns a function for the cost of a call in US dollars, based on the configured price or
// the price table. It returns nil if the price is unknown. Calls to a local server on this machine
// are free.
func priceOf(b config.Backend) func(llm.Usage) float64 {
	if price := b.PricePerMillion; price.Known() {
		return Tariff{Input: *price.Input, CachedInput: price.CachedInput, Output: *price.Output}.Cost
	}
	if m, ok := FindTariff(b.BaseURL, b.Model); ok {
		return m.Cost
	}
	if b.Known().Local && atLoopback(b.BaseURL) {
		return Tariff{}.Cost
	}
	return nil
}

// Priced reports whether the price of an agent's model is known.
func (m Models) Priced(a config.Agent) bool {
	if a.Backend.IsOffline() {
		return true
	}
	backend, _, err := m.completeBackend(a.Backend)
	return err == nil && priceOf(backend) != nil
}

// CheckPrices returns an error if a limit in dollars is set and the price of an agent's model is
// unknown. It ignores providers that are not configured here, because other workers may have them.
func (m Models) CheckPrices(t config.Team) error {
	if t.Orchestrator.Budget.MaxCostUSD == nil {
		return nil
	}
	for _, a := range t.Models() {
		if _, _, err := m.completeBackend(a.Backend); err == nil && !m.Priced(a) {
			return activities.Unpriced(a)
		}
	}
	return nil
}
