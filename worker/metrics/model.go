package metrics

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxModels bounds the number of models with separate metrics, because sessions can name any model
// of a provider.
const maxModels = 100

// models holds the names of models with separate metrics.
type models struct {
	mu   sync.Mutex
	seen map[[2]string]bool
}

func newModels() *models { return &models{seen: map[[2]string]bool{}} }

// labels returns the labels for a model of a provider.
func (n *models) labels(provider, model string) (string, string) {
	key := [2]string{provider, model}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[key] && len(n.seen) >= maxModels {
		return provider, string(other)
	}
	n.seen[key] = true
	return provider, model
}

// Model returns a model that counts its calls. provider is its name in the worker's configuration,
// or the type of a backend without a provider.
func (m *Metrics) Model(provider, name string, model loop.Model) loop.Model {
	if m == nil {
		return model
	}
	provider, name = m.models.labels(provider, name)
	m.calls.WithLabelValues(provider, name, outcomeOK)
	m.cacheHits.WithLabelValues(provider, name)
	m.unpriced.WithLabelValues(provider, name)
	return countedModel{model, m, provider, name}
}

// outcomeOK is the label of a successful call.
const outcomeOK = "ok"

type countedModel struct {
	loop.Model
	metrics        *Metrics
	provider, name string
}

// Generate implements loop.Model.
func (c countedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	began := time.Now()
	reply, err := c.Model.Generate(ctx, req)
	m, u := c.metrics, reply.Usage
	m.calls.WithLabelValues(c.provider, c.name, callOutcome(ctx, err)).Inc()
	m.latency.WithLabelValues(c.provider, c.name).Observe(time.Since(began).Seconds())
	for kind, n := range map[string]int64{"input": u.InputTokens, "cached_input": u.CachedInputTokens, "output": u.OutputTokens, "reasoning": u.ReasoningTokens} {
		m.tokens.WithLabelValues(c.provider, c.name, kind).Add(float64(max(n, 0)))
	}
	m.dollars.WithLabelValues(c.provider, c.name).Add(max(u.AtLeastUSD(), 0))
	if u.CachedInputTokens > 0 {
		m.cacheHits.WithLabelValues(c.provider, c.name).Inc()
	}
	if u.ModelCalls > 0 && u.TotalUSD == nil {
		m.unpriced.WithLabelValues(c.provider, c.name).Inc()
	}
	return reply, err
}

// callOutcome returns "ok", the kind of the model's error, "Cancelled" or "other".
func callOutcome(ctx context.Context, err error) string {
	failed, ok := errors.AsType[*llm.Error](err)
	switch {
	case err == nil:
		return outcomeOK
	case ctx.Err() != nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // err may be the context's cause
		return "Cancelled"
	case ok:
		return string(failed.Kind)
	}
	return string(other)
}

// statusLabel returns an HTTP status as a label.
func statusLabel(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}
