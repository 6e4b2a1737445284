package worker

import (
	"context"

	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/worker/settings"
)

// priced is a model whose usage is paid for by the token. What the server itself
// says about a cost is better and stays.
type priced struct {
	model loop.Model
	price settings.Price
}

func (p priced) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	reply, err := p.model.Generate(ctx, req)
	u := &reply.Usage // of a reply that is of no use, too: it has to be paid for
	if u.TotalUSD == nil && u.InputTokens+u.OutputTokens > 0 {
		usd := cost(p.price, *u)
		u.TotalUSD = &usd
	}
	return reply, err
}

// cost is in US dollars. Input tokens contain the cached ones, output tokens
// those of the reasoning. A server that counts no tokens has no known cost.
func cost(p settings.Price, u llm.Usage) float64 {
	const perMillion = 1e-6
	input := *p.Input
	cachedInput := input
	if p.CachedInput != nil {
		cachedInput = *p.CachedInput
	}
	cached := min(u.CachedInputTokens, u.InputTokens)
	return perMillion * (float64(u.InputTokens-cached)*input + float64(cached)*cachedInput + float64(u.OutputTokens)**p.Output)
}
