package worker

import (
	"maps"

	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/worker/settings"
)

// Providers are the API servers that agents can name.
type Providers map[string]*Provider

// Provider is one API server as this worker uses it: every model at it shares
// its limits.
type Provider struct {
	settings settings.Provider
	limits   *limits // nil for none
}

// NewProviders makes the providers of a worker's configuration.
func NewProviders(configured map[string]settings.Provider) Providers {
	providers := make(Providers, len(configured))
	for name, p := range configured {
		providers[name] = &Provider{settings: p, limits: newLimits(name, p.RequestsPerMinute, p.TokensPerMinute)}
	}
	return providers
}

// resolve fills in what the provider says of a backend. A backend has nothing of
// its own but its model and parameters, which come before the provider's.
func (p *Provider) resolve(b config.Backend) config.Backend {
	b.BaseURL, b.APIKeyEnv = p.settings.BaseURL, p.settings.APIKeyEnv
	params := maps.Clone(p.settings.Params)
	if params == nil {
		params = map[string]any{}
	}
	maps.Copy(params, b.Params)
	b.Params = params
	return b
}

// charge puts the provider's limits and prices around a model at it.
func (p *Provider) charge(m loop.Model) loop.Model {
	if p.settings.Price.Known() {
		m = priced{model: m, price: p.settings.Price}
	}
	if p.limits != nil {
		m = limited{model: m, limits: p.limits}
	}
	return m
}
