package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
)

// sdkBuckets are the bucket bounds of the SDK's latencies, in seconds.
var sdkBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600}

// sdkMetrics collects the metrics of the Temporal SDK. Their names and labels are only known when
// they first occur, and the labels of one name may vary.
type sdkMetrics struct {
	mu         sync.Mutex
	counters   map[string]*prometheus.CounterVec // counters by name and labels
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

func newSDKMetrics() *sdkMetrics {
	return &sdkMetrics{counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{}, histograms: map[string]*prometheus.HistogramVec{}}
}

// Describe implements prometheus.Collector. It sends nothing, because the names are not known in advance.
func (s *sdkMetrics) Describe(chan<- *prometheus.Desc) {}

func (s *sdkMetrics) Collect(metrics chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.counters {
		c.Collect(metrics)
	}
	for _, g := range s.gauges {
		g.Collect(metrics)
	}
	for _, h := range s.histograms {
		h.Collect(metrics)
	}
}

// Handler returns the handler for the SDK's metrics. It returns nil for a nil Metrics.
func (m *Metrics) Handler() client.MetricsHandler {
	if m == nil {
		return nil
	}
	return sdkHandler{metrics: m.sdk}
}

// sdkHandler implements client.MetricsHandler for metrics with certain tags.
type sdkHandler struct {
	metrics *sdkMetrics
	tags    prometheus.Labels
}

func (h sdkHandler) WithTags(tags map[string]string) client.MetricsHandler {
	all := prometheus.Labels{}
	maps.Copy(all, h.tags)
	maps.Copy(all, tags)
	return sdkHandler{h.metrics, all}
}

func (h sdkHandler) Counter(name string) client.MetricsCounter {
	name += "_total"
	c := vectorFor(h, h.metrics.counters, name, func(labels []string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: sdkHelp}, labels)
	}).With(h.tags)
	return sdkCounter{c}
}

func (h sdkHandler) Gauge(name string) client.MetricsGauge {
	g := vectorFor(h, h.metrics.gauges, name, func(labels []string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: sdkHelp}, labels)
	}).With(h.tags)
	return sdkGauge{g}
}

func (h sdkHandler) Timer(name string) client.MetricsTimer {
	name += "_seconds"
	t := vectorFor(h, h.metrics.histograms, name, func(labels []string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: sdkHelp, Buckets: sdkBuckets}, labels)
	}).With(h.tags)
	return sdkTimer{t}
}

const sdkHelp = "A metric of the Temporal SDK."

func vectorFor[V any](h sdkHandler, known map[string]V, name string, create func(labels []string) V) V {
	labels := slices.Sorted(maps.Keys(h.tags))
	key := strings.Join(append([]string{name}, labels...), " ")
	h.metrics.mu.Lock()
	defer h.metrics.mu.Unlock()
	v, ok := known[key]
	if !ok {
		v = create(labels)
		known[key] = v
	}
	return v
}

type sdkCounter struct{ prometheus.Counter }

func (c sdkCounter) Inc(n int64) { c.Add(float64(n)) }

type sdkGauge struct{ prometheus.Gauge }

func (g sdkGauge) Update(value float64) { g.Set(value) }

type sdkTimer struct{ prometheus.Observer }

func (t sdkTimer) Record(d time.Duration) { t.Observe(d.Seconds()) }

// unreleased is the version of a build outside a repository.
const unreleased = "(devel)"

// Version returns the version that the linker recorded, or else the commit. The version of an
// unreleased build contains the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unreleased
	}
	if v := info.Main.Version; v != "" && v != unreleased {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return unreleased
}

// BuildID identifies this build among the versions of a worker deployment. It is the version or, if
// there is no version, a checksum of the executable.
var BuildID = sync.OnceValue(func() string {
	if v := Version(); v != unreleased {
		return v
	}
	return cmp.Or(fileChecksum(os.Executable), unreleased)
})

// fileChecksum returns the first part of the SHA-256 of a file, or "" if the file cannot be read.
func fileChecksum(name func() (string, error)) string {
	path, err := name()
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return ""
	}
	const digits = 16
	return hex.EncodeToString(hash.Sum(nil))[:digits]
}
