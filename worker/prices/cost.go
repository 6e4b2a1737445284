package prices

import "conclave/engine/llm"

// Cost is what one call costs, in US dollars.
func (m Model) Cost(u llm.Usage) float64 {
	if m.Long != nil && u.InputTokens > m.Long.Above {
		return m.Long.Cost(u)
	}
	return m.Tariff.Cost(u)
}

// Cost is what calls cost at this tariff, in US dollars. Input tokens contain
// the cached ones, output tokens those of the reasoning.
func (t Tariff) Cost(u llm.Usage) float64 {
	const perMillion = 1e-6
	cachedInput := t.Input
	if t.CachedInput != nil {
		cachedInput = *t.CachedInput
	}
	cached := min(u.CachedInputTokens, u.InputTokens)
	return perMillion * (float64(u.InputTokens-cached)*t.Input + float64(cached)*cachedInput + float64(u.OutputTokens)*t.Output)
}
