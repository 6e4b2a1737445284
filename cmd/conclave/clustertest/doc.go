// Package clustertest runs the parts of a cluster as processes for tests and
// benchmarks: Temporal's server on PostgreSQL, and MinIO. Each process can be killed
// and restarted on its data.
//
// Environment variables set by make locate the programs: TEMPORAL_SERVER_BIN,
// TEMPORAL_SQL_BIN, POSTGRES_BIN (a directory) and MINIO_BIN. Everything listens on
// 127.0.0.1. The other files have the build tags e2e and bench.
//
// Start with StartTemporal in temporal.go.
package clustertest
