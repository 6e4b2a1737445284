package worker

import (
	"maps"
	"net/http"

	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/worker/settings"
)

// Providers are the API servers that agents can name.
type Providers map[string]*Provider

// Provider is one API server as this worker uses it: every model at it shares
// its limits, its connections and its wish to be left alone for a while. A nil
// Provider is one that no operator has configured.
type Provider struct {
	settings settings.Provider
	queue    *queue
	client   *http.Client
}

// NewProviders makes the providers of a worker's configuration.
func NewProviders(configured map[string]settings.Provider) Providers {
	providers := make(Providers, len(configured))
	for name, p := range configured {
		q := newQueue(name, p.RequestsPerMinute, p.TokensPerMinute)
		providers[name] = &Provider{settings: p, queue: q, client: &http.Client{Transport: newListener(q)}}
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

// limit puts the provider's limits around a model at it.
func (p *Provider) limit(m loop.Model) loop.Model {
	if p == nil {
		return m
	}
	return limited{model: m, queue: p.queue}
}
