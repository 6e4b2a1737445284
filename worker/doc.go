// Package worker assembles one worker process: the store, the teams, the
// activities and their registration with Temporal.
//
// Start with Config and Run in worker.go. Models (model.go) builds the models of agents
// at the operator's providers (provider.go), whose calls wait in a queue (queue.go).
// Tools (tools.go) opens the agents' tools, those of MCP servers included (servers.go). Local (local.go) gives both to steps that no
// worker runs. Package settings reads the operator's file, prices has the prices of models,
// cluster connects to Temporal and the store, codec encrypts histories, metrics counts the
// worker's activities for Prometheus, traces exports them as spans, and roster reports the running
// activities of a dead worker.
package worker
