package worker

import (
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/worker/settings"
)

// Providers are the API servers that agents can name.
type Providers map[string]*provider

// provider is one API server as this worker uses it. All models at it share its
// limits, its connections and the pauses that it asks for. A nil provider stands for
// a server that no operator has configured.
type provider struct {
	settings settings.Provider
	queue    *queue
	client   *http.Client
}

// NewProviders returns the providers of a worker's configuration.
func NewProviders(configured map[string]settings.Provider) Providers {
	providers := make(Providers, len(configured))
	for name, p := range configured {
		q := newQueue(name, p.RequestsPerMinute, p.TokensPerMinute)
		providers[name] = &provider{settings: p, queue: q, client: &http.Client{Transport: newTransport(q)}}
	}
	return providers
}

// resolve completes a backend that names the provider. A backend defines only its
// model and parameters, which take precedence over the provider's.
func (p *provider) resolve(b config.Backend) config.Backend {
	b.BaseURL, b.APIKeyEnv = p.settings.BaseURL, p.settings.APIKeyEnv
	params := map[string]any{}
	maps.Copy(params, p.settings.Params)
	maps.Copy(params, b.Params)
	b.Params = params
	return b
}

// limit applies the provider's limits to a model.
func (p *provider) limit(m loop.Model) loop.Model {
	if p == nil {
		return m
	}
	return limited{model: m, queue: p.queue}
}

// transport sends the requests to a provider and counts them. When the server asks
// one request to wait, all of them pause.
type transport struct {
	next  http.RoundTripper
	queue *queue
}

// idleConnections is how many connections stay open for later calls.
const idleConnections = 256

func newTransport(q *queue) transport { return transport{next: newConnections(), queue: q} }

// newConnections returns the standard transport with more idle connections.
func newConnections() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	return t
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if n, ok := req.Context().Value(requestCount{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	res, err := t.next.RoundTrip(req)
	if err == nil && (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		if d := retryAfter(res.Header, time.Now()); d > 0 {
			t.queue.pause(d)
		}
	}
	return res, err
}

// retryAfter returns the pause that a server asks for, 0 for none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, longestWait.Seconds()*1000) * float64(time.Millisecond))
	}
	after := header.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil && s > 0 {
		return time.Duration(min(s, longestWait.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(after); err == nil {
		return at.Sub(now)
	}
	return 0
}
