// Package worker assembles a worker process: the store, the teams, the activities and their
// registration with Temporal.
//
// Start with Config and Run in worker.go. Models (model.go) builds the models of agents at the
// operator's providers (provider.go); their calls wait in a queue (queue.go). Tools (tools.go) opens
// the agents' tools, including those of MCP servers (servers.go). Local (local.go) provides both to
// steps that run without a worker. Package settings reads the operator's file, prices has the prices
// of models, cluster connects to Temporal and the store, codec encrypts histories, metrics counts the
// worker's activities for Prometheus, traces exports them as spans, and roster reports the running
// activities of a dead worker.
package worker
