// Package metrics provides the Prometheus metrics of a worker process and serves them together with
// its health: /metrics, /healthz and /readyz.
//
// Start with Metrics. Its Interceptor counts sessions and steps from the inputs and results of
// activities, its Model counts model calls, its Observer counts requests to the bucket, and its
// Handler receives the metrics of the Temporal SDK. docs/metrics.md lists all metrics; a test
// verifies the list.
//
// The values of every label are bounded: teams are those of the operator, and after the first
// hundred models all others share one name.
package metrics
