package worker

import (
	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/worker/prices"
	"conclave/worker/settings"
)

// price tells what one call costs, in US dollars; nil if that is not known. What
// the server itself says about a cost is better (activities/openai).
type price func(llm.Usage) float64

// priceOf is the price of a backend that is settled, at a provider or at none:
// the operator's, else that of the table.
func priceOf(b config.Backend, p *Provider) price {
	if p != nil && p.settings.Price.Known() {
		return tariff(p.settings.Price).Cost
	}
	if m, ok := prices.Find(b.BaseURL, b.Model); ok {
		return m.Cost
	}
	return nil
}

// tariff is a known price.
func tariff(p settings.Price) prices.Tariff {
	return prices.Tariff{Input: *p.Input, CachedInput: p.CachedInput, Output: *p.Output}
}

// Priced reports whether the costs of an agent's model will be known. The
// built-in model costs nothing.
func (m Models) Priced(a config.Agent) bool {
	if a.Backend.Type == config.Offline {
		return true
	}
	backend, provider, err := m.at(a.Backend)
	return err == nil && priceOf(backend, provider) != nil
}

// CheckPrices returns an error if a team has a limit in
// dollars and an agent whose costs will not be known. Of providers that are not
// configured here another worker knows.
func (m Models) CheckPrices(t config.Team) error {
	if t.Orchestrator.Budget.MaxCostUSD == nil {
		return nil
	}
	for _, a := range t.Agents {
		if _, _, err := m.at(a.Backend); err == nil && !m.Priced(a) {
			return activities.Unpriced(a)
		}
	}
	return nil
}

// Window is how many tokens a conversation with an agent's model can have, its
// reply included: what the operator says, else the table; 0 if it is not known.
func (m Models) Window(a config.Agent) int {
	if a.Backend.Type == config.Offline {
		return 0
	}
	backend, provider, err := m.at(a.Backend)
	if err != nil {
		return 0
	}
	if provider != nil && provider.settings.ContextWindow != nil {
		return *provider.settings.ContextWindow
	}
	known, _ := prices.Find(backend.BaseURL, backend.Model)
	return known.ContextWindow
}
