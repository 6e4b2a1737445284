package worker

import (
	"context"
	"fmt"
	"os"
	"slices"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"conclave/activities"
	"conclave/engine/config"
	"conclave/engine/loop"
	"conclave/engine/redact"
	"conclave/engine/step"
	"conclave/worker/cluster"
	"conclave/worker/traces"
	"conclave/workflows/drive"
)

// serveMetrics serves the metrics and the health of this process until stop is called.
func (c Config) serveMetrics() (stop func(), err error) {
	if c.Metrics == nil || c.MetricsAddress == "" {
		return func() {}, nil
	}
	_, stop, err = c.Metrics.Serve(c.MetricsAddress, c.Log)
	return stop, err
}

// openTraces returns the tracer configured by the environment, or nil.
func (c Config) openTraces() (*traces.Tracer, error) {
	return traces.Open(context.Background(), traces.Options{Version: cluster.Version(), Instance: cluster.WorkerIdentity(), Redact: c.redact(), Log: c.Log})
}

// redact returns a function that removes the secrets of this process.
func (c Config) redact() func([]byte) []byte {
	return redact.New(redact.Environment(slices.Concat(os.Environ(), c.Tools.secrets()))).Bytes
}

func (c Config) openTools(ctx context.Context, agent config.Agent, workspace string, s activities.Sharing) (step.Tools, error) {
	opened, err := c.Tools.Open(ctx, agent, workspace, s)
	if err != nil {
		return nil, err
	}
	return c.Models.traces.Tools(opened), nil
}

// observed returns a model whose calls are counted and traced.
func (m Models) observed(provider, name string, model loop.Model) loop.Model {
	return m.traces.Model(provider, name, m.metrics.Model(provider, name, model))
}

// reachable returns an error if Temporal does not respond.
func (c Config) reachable(ctx context.Context) error {
	if _, err := c.Client.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("Temporal does not answer: %w", err) //nolint:staticcheck // Temporal is a name
	}
	return nil
}

// interceptors returns the interceptors of a worker. The metrics are the outermost, and the order of
// signals is kept next to the workflow.
func (c Config) interceptors(noted interceptor.WorkerInterceptor) []interceptor.WorkerInterceptor {
	var all []interceptor.WorkerInterceptor
	if c.Metrics != nil {
		all = append(all, c.Metrics.Interceptor())
	}
	if c.Models.traces != nil {
		all = append(all, c.Models.traces.Interceptor())
	}
	return append(all, noted, &drive.SignalOrder{})
}

// level returns the level at which commands are confined and whether this host supports it. The
// first call probes the host.
func (t *Tools) level() (level string, works bool) {
	err := t.confines(context.Background())
	return t.settings.Sandbox.Level, err == nil
}
