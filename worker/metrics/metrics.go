package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"conclave/activities/s3store"
	"conclave/engine/coordination"
)

// Metrics holds the metrics of this process. The methods of a nil Metrics do nothing.
type Metrics struct {
	registry *prometheus.Registry
	sdk      *sdkMetrics
	models   *models
	health   health

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

// New returns the metrics of a process with the given version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), sdk: newSDKMetrics(), models: newModels()}
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
	m.registry.MustRegister(&steps{
		doing:   doing,
		running: prometheus.NewDesc("conclave_steps_running", "Steps that run on this worker, by what they do.", []string{"doing"}, nil),
		waiting: prometheus.NewDesc("conclave_steps_waiting", "Steps that wait on this worker, by reason.", []string{"reason"}, nil),
	})
}

// steps collects the number of current steps.
type steps struct {
	doing            func() map[coordination.DoingKind]int
	running, waiting *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *steps) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- s.running
	descriptions <- s.waiting
}

// Collect implements prometheus.Collector.
func (s *steps) Collect(metrics chan<- prometheus.Metric) {
	doing := s.doing()
	doing[other] += doing[""]
	send := func(d *prometheus.Desc, kinds []coordination.DoingKind) {
		for _, kind := range kinds {
			metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(doing[kind]), string(kind))
		}
	}
	send(s.running, running)
	send(s.waiting, waiting)
}

// Sandbox registers the gauge conclave_sandbox_level: the confinement level of this worker, and
// whether its host supports it.
func (m *Metrics) Sandbox(level func() (name string, works bool)) {
	if m == nil {
		return
	}
	m.registry.MustRegister(&sandbox{level, prometheus.NewDesc("conclave_sandbox_level",
		"The level at which this worker confines commands: 1, or 0 if its host cannot.", []string{"level"}, nil)})
}

type sandbox struct {
	level       func() (name string, works bool)
	description *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *sandbox) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- s.description }

// Collect implements prometheus.Collector.
func (s *sandbox) Collect(metrics chan<- prometheus.Metric) {
	name, works := s.level()
	value := 0.
	if works {
		value = 1
	}
	metrics <- prometheus.MustNewConstMetric(s.description, prometheus.GaugeValue, value, name)
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
