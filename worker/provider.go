package worker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/worker/settings"
)

// providers are the API servers that agents can name.
type providers map[string]*provider

// provider is one API server. All models at it share its limits, connections and pauses. A nil
// provider stands for a server that the operator has not configured.
type provider struct {
	settings settings.Provider
	queue    *queue
	client   *http.Client
}

// newProviders returns the providers of a worker's configuration.
func newProviders(configured map[string]settings.Provider) providers {
	all := make(providers, len(configured))
	for name, p := range configured {
		q := newQueue("the provider "+name, p.RequestsPerMinute, p.TokensPerMinute)
		q.concurrent = valueOf(p.MaxConcurrentCalls)
		all[name] = &provider{settings: p, queue: q, client: &http.Client{Transport: newTransport(q)}}
	}
	return all
}

// resolve completes a backend with the settings of its provider. The backend's own values take
// precedence. max_concurrent_calls is not copied, because all models of the provider share that
// limit.
func (p *provider) resolve(b config.Backend) config.Backend {
	b.BaseURL, b.APIKeyEnv = p.settings.BaseURL, p.settings.APIKeyEnv
	params := map[string]any{}
	maps.Copy(params, p.settings.Params)
	maps.Copy(params, b.Params)
	b.Params = params
	b.ContextWindow = cmp.Or(b.ContextWindow, p.settings.ContextWindow)
	b.SilentTimeoutSeconds = cmp.Or(b.SilentTimeoutSeconds, p.settings.SilentTimeoutSeconds)
	if !b.PricePerMillion.Known() {
		b.PricePerMillion = p.settings.Price
	}
	return b
}

// limit applies the limits of the provider to a model.
func (p *provider) limit(m loop.Model) loop.Model {
	if p == nil {
		return m
	}
	return limited{model: m, queue: p.queue}
}

// transport sends requests to a provider and counts them. If the server asks for a pause, all calls
// of the provider are paused.
type transport struct {
	next  http.RoundTripper
	queue *queue
}

// idleConnections is the number of connections that are kept open for later calls.
const idleConnections = 256

func newTransport(q *queue) transport { return transport{next: newConnections(), queue: q} }

// newConnections returns the default transport with more idle connections.
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

// retryAfter returns the pause that a server requests, or 0.
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

// limit is the number of requests or tokens of a provider that this worker may use in a minute: its
// share of the limit for all live workers. The use is spread evenly after an initial burst. A nil
// limit allows everything.
type limit struct {
	*rate.Limiter
	all      int    // the provider's, for all workers together
	unit, of string // words for people: the unit and the owner of the limit
	workers  int
}

// burstFraction is the divisor for the initial burst: a sixth of the limit per minute.
const burstFraction = 6

func perMinute(of string, n *int, unit string) *limit {
	if n == nil {
		return nil
	}
	return &limit{
		Limiter: rate.NewLimiter(perSecond(*n, 1), burst(*n, 1)),
		all:     *n, unit: unit, of: of, workers: 1,
	}
}

// share divides the limit by the number of workers, and reports whether that has changed it.
func (l *limit) share(now time.Time, workers int) (changed bool) {
	if l == nil || l.workers == workers {
		return false
	}
	l.workers = workers
	l.SetLimitAt(now, perSecond(l.all, workers))
	l.SetBurstAt(now, burst(l.all, workers))
	return true
}

// perSecond and burst return the share of one of several workers in a limit of n per minute.
func perSecond(n, workers int) rate.Limit {
	return rate.Limit(float64(n) / float64(workers) / time.Minute.Seconds())
}

func burst(n, workers int) int { return max(1, n/workers/burstFraction) }

// name returns a description of the limit for people.
func (l *limit) name() string {
	name := fmt.Sprintf("%d %s per minute at %s", l.all, l.unit, l.of)
	if l.workers > 1 {
		return fmt.Sprintf("%s (shared by %d workers)", name, l.workers)
	}
	return name
}

// until returns the time until n units are available if nothing else is used.
func (l *limit) until(now time.Time, n int) time.Duration {
	if l == nil {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	const rounding = 1e-6 // rounding error of the limiter's count
	if missing <= rounding {
		return 0
	}
	seconds := missing / float64(l.Limit())
	return time.Duration(min(math.Ceil(seconds*float64(time.Second)), math.MaxInt64/2))
}

// atMost returns n, but at most a burst, since no call can wait for more than that.
func (l *limit) atMost(n int) int {
	if l == nil {
		return 0
	}
	return min(n, l.Burst())
}

// longestDebt bounds the wait that is caused by the usage of one call, because a server may report
// absurd numbers.
const longestDebt = 10 * time.Minute

// use takes n units even if fewer are available; later calls wait until the debt is paid. A
// negative n returns units.
func (l *limit) use(now time.Time, n int) {
	if l == nil {
		return
	}
	n = min(n, int(float64(l.Limit())*longestDebt.Seconds()))
	for ; n > l.Burst(); n -= l.Burst() {
		l.ReserveN(now, l.Burst())
	}
	l.ReserveN(now, n)
}

// limited is a model whose calls wait for their turn in a queue.
type limited struct {
	model loop.Model
	queue *queue
}

// requestCount is the context key of the number of requests that a call has sent.
type requestCount struct{}

// Generate waits until the limits allow the estimated input, then calls the model. Usage above the
// estimate delays later calls.
func (l limited) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	began, expected := time.Now(), inputTokens(req)
	if err := l.queue.enter(ctx, callerOf(ctx), expected); err != nil {
		return llm.Reply{}, err
	}
	defer l.queue.leave()
	waited := time.Since(began)
	var requests atomic.Int64
	reply, err := l.model.Generate(context.WithValue(ctx, requestCount{}, &requests), req)
	reply.Waited += waited
	l.queue.correct(max(0, int(requests.Load())-1), l.excess(ctx, expected, reply.Usage, err))
	return reply, err
}

// excess returns the number of tokens used in addition to the expected ones, or 0 if the usage is
// unknown.
func (l limited) excess(ctx context.Context, expected int, u llm.Usage, err error) int {
	used := int(u.InputTokens + u.OutputTokens)
	if used == 0 && (err == nil || ctx.Err() != nil) {
		return 0
	}
	return used - l.queue.tokens.atMost(expected)
}

// inputTokens returns a low estimate of a request's tokens, since a token has three to four bytes
// of text.
func inputTokens(req llm.Request) int {
	const bytesPerToken = 4
	size := 0
	for _, m := range req.Messages {
		size += len(m.Content)
		for _, call := range m.ToolCalls {
			size += len(call.Arguments)
		}
	}
	for _, tool := range req.Tools {
		size += len(tool.Description) + len(tool.Parameters)
	}
	return 1 + size/bytesPerToken
}
