package worker

import (
	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/worker/prices"
)

// priceOf returns a function for the cost of a call in US dollars, based on the configured price or
// the price table. It returns nil if the price is unknown. Calls to a local server on this machine
// are free.
func priceOf(b config.Backend) func(llm.Usage) float64 {
	if price := b.PricePerMillion; price.Known() {
		return prices.Tariff{Input: *price.Input, CachedInput: price.CachedInput, Output: *price.Output}.Cost
	}
	if m, ok := prices.Find(b.BaseURL, b.Model); ok {
		return m.Cost
	}
	if b.Known().Local && atLoopback(b.BaseURL) {
		return prices.Tariff{}.Cost
	}
	return nil
}

// Priced reports whether the price of an agent's model is known.
func (m Models) Priced(a config.Agent) bool {
	if a.Backend.Type == config.Offline {
		return true
	}
	backend, _, err := m.at(a.Backend)
	return err == nil && priceOf(backend) != nil
}

// CheckPrices returns an error if a limit in dollars is set and the price of an agent's model is
// unknown. It ignores providers that are not configured here, because other workers may have them.
func (m Models) CheckPrices(t config.Team) error {
	if t.Orchestrator.Budget.MaxCostUSD == nil {
		return nil
	}
	for _, a := range t.Models() {
		if _, _, err := m.at(a.Backend); err == nil && !m.Priced(a) {
			return activities.Unpriced(a)
		}
	}
	return nil
}
