package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	headerTimeout = 10 * time.Second

	// checkTimeout bounds a readiness check. By default, Kubernetes probes time out after a second.
	checkTimeout = 900 * time.Millisecond
)

// health is the state that /readyz reports.
type health struct {
	mu      sync.Mutex
	problem error
	check   func(context.Context) error // nil until the worker is ready
}

var (
	errStarting = errors.New("starting")
	errDraining = errors.New("stopping: running steps are handed over")
)

// Ready makes /readyz succeed while check returns nil.
func (m *Metrics) Ready(check func(context.Context) error) {
	if m == nil {
		return
	}
	m.health.mu.Lock()
	defer m.health.mu.Unlock()
	m.health.check, m.health.problem = check, nil
}

// Draining makes /readyz fail.
func (m *Metrics) Draining() {
	if m == nil {
		return
	}
	m.health.mu.Lock()
	defer m.health.mu.Unlock()
	m.health.problem = errDraining
}

// state returns the reason why the process accepts no work, or nil.
func (h *health) state(ctx context.Context) error {
	h.mu.Lock()
	check, problem := h.check, h.problem
	h.mu.Unlock()
	switch {
	case problem != nil:
		return problem
	case check == nil:
		return errStarting
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}

// Serve serves /metrics, /healthz and /readyz at an address until stop is called.
func (m *Metrics) Serve(address string, log *slog.Logger) (at net.Addr, stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("serve metrics at %s: %w; set metrics_address to a free port of this host", address, err)
	}
	server := &http.Server{Handler: m.routes(), ReadHeaderTimeout: headerTimeout}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "address", address, "error", err)
		}
	})
	return listener.Addr(), func() { _ = server.Close(); serving.Wait() }, nil
}

func (m *Metrics) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, m.health.state(r.Context()), "ready") })
	return mux
}

// answer responds with status 503 and the problem or, if problem is nil, with the text.
func answer(w http.ResponseWriter, problem error, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if problem != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = problem.Error()
	}
	_, _ = io.WriteString(w, text+"\n")
}
