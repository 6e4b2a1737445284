// Package cluster connects a worker or a client to shared services: Temporal and a bucket. It reads
// the settings of their own tools, TEMPORAL_* and temporal.toml, and AWS_*; command-line flags take
// precedence. The embedded stack for a single machine is in package cmd/conclave/local.
//
// Start with Dial in cluster.go. log.go has the logs and the common flags of workers.
//
// # Codec
//
// A Codec (cluster.go) encrypts everything that conclave stores in Temporal's histories: inputs,
// results, memos, heartbeats, updates, queries and the messages of failures. Each payload is
// encrypted separately with AES-256-GCM. Identifiers, times and search attributes remain readable,
// as does the bucket, which has its own encryption.
//
// Keys come from the environment (KeyVariable). Payloads that are not encrypted are returned unchanged, so a
// cluster can start to use keys at any time, and clients without a key can start sessions.
//
// # Metrics
//
// Metrics (metrics.go) are the Prometheus metrics of a worker process, served together with its
// health: /metrics, /healthz and /readyz. Its Interceptor counts sessions and steps from the inputs
// and results of activities (activity.go), its Model counts model calls, its Observer counts
// requests to the bucket, and its Handler receives the metrics of the Temporal SDK (sdk.go).
// docs/metrics.md lists all metrics; a test verifies the list.
//
// The values of every label are bounded: teams are those of the operator, and after the first
// hundred models all others share one name.
package cluster
