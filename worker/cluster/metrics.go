package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"conclave/activities/s3store"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Metrics holds the metrics of this process. The methods of a nil Metrics do nothing.
type Metrics struct {
	registry *prometheus.Registry
	sdk      *sdkMetrics
	models   *models
	health   Health

	started, ended, runs, resumed *prometheus.CounterVec
	decision                      *prometheus.HistogramVec

	steps                   *prometheus.HistogramVec
	continued, repaid       *prometheus.CounterVec
	injected, votes, stale  *prometheus.CounterVec
	calls, tokens, dollars  *prometheus.CounterVec
	cacheHits, unpriced     *prometheus.CounterVec
	latency, requestLatency *prometheus.HistogramVec
	requests                *prometheus.CounterVec
}

// Buckets for durations, in seconds.
var (
	sessionBuckets = []float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
	stepBuckets    = []float64{1, 5, 10, 30, 60, 120, 300, 600, 1200, 3600}
	callBuckets    = []float64{.25, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300}
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30}
)

// NewMetrics returns the metrics of a process with the given version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), sdk: newSDKMetrics(), models: &models{seen: map[[2]string]bool{}}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.started = counter("conclave_sessions_started_total", "Sessions that this worker prepared.", "team")
	m.ended = counter("conclave_sessions_ended_total", "Sessions whose end this worker recorded.", "team", "status")
	m.resumed = counter("conclave_sessions_resumed_total", "Ended sessions and pipelines that were continued.", "kind")
	m.decision = histogram("conclave_session_seconds", "Time from the start of a session to its end.", sessionBuckets, "status")
	m.runs = counter("conclave_runs_ended_total", "Pipelines and scenario runs whose end this worker recorded.", "kind", "status")
	m.injected = counter("conclave_updates_injected_total", "Steps that received answers while they worked.", "team")
	m.votes = counter("conclave_votes_total", "Votes that were accepted.", "team")
	m.stale = counter("conclave_votes_stale_total", "Votes of ended sessions that did not count: replaced, withdrawn or stale.", "team")
	m.steps = histogram("conclave_step_seconds", "Duration of the attempts of steps.", stepBuckets, "kind", "outcome")
	m.continued = counter("conclave_steps_resumed_total", "Steps that a later attempt went on with from the journal.", "kind")
	m.repaid = counter("conclave_model_calls_repaid_total", "Attempts that repeat a model call, because the attempt before ended during it.", "kind")
	m.calls = counter("conclave_model_calls_total", "Model calls.", "provider", "model", "outcome")
	m.latency = histogram("conclave_model_call_seconds", "Duration of model calls, with waits for servers that were away.", callBuckets, "provider", "model")
	m.tokens = counter("conclave_model_tokens_total", "Tokens of model calls.", "provider", "model", "type")
	m.dollars = counter("conclave_model_cost_usd_total", "Cost of model calls with a known price, in US dollars.", "provider", "model")
	m.unpriced = counter("conclave_model_unpriced_calls_total", "Model calls without a known price.", "provider", "model")
	m.cacheHits = counter("conclave_model_cache_hits_total", "Model calls with input from the provider's cache.", "provider", "model")
	m.requests = counter("conclave_s3_requests_total", "Requests to the bucket, retries included.", "operation", "status")
	m.requestLatency = histogram("conclave_s3_request_seconds", "Time until the bucket's response.", requestBuckets, "operation")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "conclave_build_info", Help: "1, with the version of the worker."}, []string{"version", "go"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, m.sdk, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Teams initializes the counters of the operator's teams to 0, because Prometheus computes no
// increase for a counter whose first value is 1.
func (m *Metrics) Teams(names []string) {
	if m == nil {
		return
	}
	for _, team := range append([]string{ownTeam}, names...) {
		for _, v := range []*prometheus.CounterVec{m.started, m.injected, m.votes, m.stale} {
			v.WithLabelValues(team)
		}
		for _, status := range []string{"consensus", "failed"} {
			m.ended.WithLabelValues(team, status)
		}
	}
	for _, kind := range []string{kindSession, kindPipeline, kindScenario} {
		m.continued.WithLabelValues(kind)
		m.repaid.WithLabelValues(kind)
	}
	m.resumed.WithLabelValues(kindSession)
	m.resumed.WithLabelValues(kindPipeline)
	m.runs.WithLabelValues(kindPipeline, "completed")
	m.runs.WithLabelValues(kindScenario, "pass")
}

// Values of the labels doing, for running steps, and reason, for waiting ones.
var (
	running = []coordination.DoingKind{coordination.CallsModel, coordination.RunsTool, other}
	waiting = []coordination.DoingKind{coordination.RateLimited, coordination.ModelAway, coordination.Queued}
)

// other is the activity of a step between two calls.
const other coordination.DoingKind = "other"

// Steps registers the metrics of this process's steps. doing counts the steps by activity; ""
// stands for the time between calls.
func (m *Metrics) Steps(doing func() map[coordination.DoingKind]int) {
	if m == nil {
		return
	}
	for _, kind := range running {
		m.registerGauge("conclave_steps_running", "Steps that run on this worker, by what they do.", "doing", string(kind), func() int {
			if kind == other {
				return doing()[""]
			}
			return doing()[kind]
		})
	}
	for _, kind := range waiting {
		m.registerGauge("conclave_steps_waiting", "Steps that wait on this worker, by reason.", "reason", string(kind), func() int { return doing()[kind] })
	}
}

// Sandbox registers the gauge conclave_sandbox_level: the confinement level of this worker, and
// whether its host supports it.
func (m *Metrics) Sandbox(level string, works func() bool) {
	if m == nil {
		return
	}
	m.registerGauge("conclave_sandbox_level", "The level at which this worker confines commands: 1, or 0 if its host cannot.", "level", level, func() int {
		if works() {
			return 1
		}
		return 0
	})
}

func (m *Metrics) registerGauge(name, help, label, value string, read func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}},
		func() float64 { return float64(read()) },
	))
}

// Observer returns a function that counts requests to the bucket. It returns nil for a nil Metrics.
func (m *Metrics) Observer() s3store.Observer {
	if m == nil {
		return nil
	}
	return func(operation string, status int, took time.Duration) {
		m.requests.WithLabelValues(operation, statusLabel(status)).Inc()
		m.requestLatency.WithLabelValues(operation).Observe(took.Seconds())
	}
}

// maxModels bounds the number of models with separate metrics, because sessions can name any model
// of a provider.
const maxModels = 100

// models holds the names of models with separate metrics.
type models struct {
	mu   sync.Mutex
	seen map[[2]string]bool
}

func (n *models) modelLabels(provider, model string) (string, string) {
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
	provider, name = m.models.modelLabels(provider, name)
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

func statusLabel(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

const (
	headerTimeout = 10 * time.Second

	// checkTimeout bounds a readiness check. By default, Kubernetes probes time out after a second.
	checkTimeout = 900 * time.Millisecond
)

// Health is the report of /healthz and /readyz of a process. The zero value is starting.
type Health struct {
	mu      sync.Mutex
	problem error
	check   func(context.Context) error // nil until the process is ready

	checking sync.Mutex // one check at a time, because everybody may ask
}

var (
	errStarting = errors.New("starting")
	errDraining = errors.New("stopping: running work is handed over")
)

// Ready makes /readyz succeed while check returns nil.
func (h *Health) Ready(check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.check, h.problem = check, nil
}

// Drain makes /readyz fail.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = errDraining
}

// AddRoutes serves /healthz and /readyz.
func (h *Health) AddRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, nil, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		writeHealth(w, h.lackReason(r.Context()), "ready")
	})
}

// lackReason returns the reason why the process accepts no work, or nil.
func (h *Health) lackReason(ctx context.Context) error {
	h.mu.Lock()
	check, problem := h.check, h.problem
	h.mu.Unlock()
	switch {
	case problem != nil:
		return problem
	case check == nil:
		return errStarting
	}
	h.checking.Lock()
	defer h.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}

// Ready makes /readyz succeed while check returns nil.
func (m *Metrics) Ready(check func(context.Context) error) {
	if m != nil {
		m.health.Ready(check)
	}
}

// Drain makes /readyz fail.
func (m *Metrics) Drain() {
	if m != nil {
		m.health.Drain()
	}
}

// Serve serves /metrics, /healthz and /readyz at an address until stop is called.
func (m *Metrics) Serve(address string, log *slog.Logger) (at net.Addr, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("serve metrics at %s: %w; set metrics_address to a free port of this host", address, err)
	}
	server := &http.Server{Handler: m.httpRoutes(), ReadHeaderTimeout: headerTimeout}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "address", address, "error", err)
		}
	})
	return listener.Addr(), func() { _ = server.Close(); serving.Wait() }, nil
}

func (m *Metrics) httpRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	m.health.AddRoutes(mux)
	return mux
}

// writeHealth responds with status 503 and the problem or, if problem is nil, with the text.
func writeHealth(w http.ResponseWriter, problem error, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = problem.Error()
	}
	_, _ = io.WriteString(w, text+"\n")
}
