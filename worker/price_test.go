package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/worker/settings"
)

// says is a model that always says the same.
type says struct {
	usage llm.Usage
	err   error
}

func (s says) Generate(context.Context, llm.Request) (llm.Reply, error) {
	return llm.Reply{Usage: s.usage}, s.err
}

func TestCost(t *testing.T) {
	t.Parallel()
	full := settings.Price{Input: number(1.25), CachedInput: number(0.125), Output: number(10)}
	uncached := settings.Price{Input: number(3), Output: number(15)}
	free := settings.Price{Input: number(0), Output: number(0)}
	for name, tt := range map[string]struct {
		price settings.Price
		usage llm.Usage
		want  *float64
	}{
		"a million of each":            {full, llm.Usage{InputTokens: 1e6, OutputTokens: 1e6, ModelCalls: 1}, number(11.25)},
		"cached input is part of it":   {full, llm.Usage{InputTokens: 1e6, CachedInputTokens: 4e5, ModelCalls: 1}, number(0.75 + 0.05)},
		"no price of cached input":     {uncached, llm.Usage{InputTokens: 1e6, CachedInputTokens: 4e5, ModelCalls: 1}, number(3)},
		"more cached than there was":   {full, llm.Usage{InputTokens: 1e6, CachedInputTokens: 2e6, ModelCalls: 1}, number(0.125)},
		"reasoning is part of output":  {full, llm.Usage{OutputTokens: 1e6, ReasoningTokens: 9e5, ModelCalls: 1}, number(10)},
		"free":                         {free, llm.Usage{InputTokens: 1e6, OutputTokens: 1e6, ModelCalls: 1}, number(0)},
		"the server knows better":      {full, llm.Usage{InputTokens: 1e6, TotalUSD: number(7), ModelCalls: 1}, number(7)},
		"a server that does not count": {full, llm.Usage{ModelCalls: 1}, nil},
		"no call":                      {full, llm.Usage{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply, err := priced{model: says{usage: tt.usage}, price: tt.price}.Generate(t.Context(), llm.Request{})
			require.NoError(t, err)
			if tt.want == nil {
				require.Nil(t, reply.Usage.TotalUSD)
				return
			}
			require.NotNil(t, reply.Usage.TotalUSD)
			require.InDelta(t, *tt.want, *reply.Usage.TotalUSD, 1e-9)
		})
	}
}

func TestAReplyOfNoUseCostsToo(t *testing.T) {
	t.Parallel()
	cut := errors.New("cut off")
	reply, err := priced{
		model: says{usage: llm.Usage{InputTokens: 1e6, ModelCalls: 1}, err: cut},
		price: settings.Price{Input: number(2), Output: number(0)},
	}.Generate(t.Context(), llm.Request{})
	require.ErrorIs(t, err, cut)
	require.InDelta(t, 2, *reply.Usage.TotalUSD, 1e-9)
}

func TestPricedModels(t *testing.T) {
	t.Parallel()
	m := Models{Providers: NewProviders(map[string]settings.Provider{
		"paid": {Price: settings.Price{Input: number(2), Output: number(10)}},
		"half": {Price: settings.Price{Input: number(2)}},
	})}
	require.True(t, m.Priced(agent(config.Backend{Provider: "paid"})))
	require.False(t, m.Priced(agent(config.Backend{Provider: "half"})))
	require.False(t, m.Priced(agent(config.Backend{Provider: "gone"})))
	require.False(t, m.Priced(agent(config.Backend{Model: "m"})))
	require.True(t, m.Priced(config.Agent{ID: "a", Backend: config.Backend{Type: config.Offline}}), "it is free")
}
