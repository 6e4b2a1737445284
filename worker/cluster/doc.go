// Package cluster reaches what a worker or a client shares with others: a Temporal
// service and a bucket. Both are found as their own tools find them, by TEMPORAL_*
// and temporal.toml, and by AWS_*, and what a command line says comes first.
//
// It knows nothing of sessions, and starts nothing: the embedded stack of a laptop
// is package devserver's.
package cluster
