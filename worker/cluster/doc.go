// Package cluster connects a worker or a client to shared services: Temporal and a bucket. It reads
// the settings of their own tools, TEMPORAL_* and temporal.toml, and AWS_*; command-line flags take
// precedence. Connections encrypt payloads with the keys of package codec. Package devserver has
// the embedded stack for a single machine. Start with Dial in cluster.go.
package cluster
