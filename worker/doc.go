// Package worker assembles one worker process: the store, the teams, the
// activities and their registration with Temporal.
//
// Start with Config in worker.go and Run in run.go. Models (model.go) builds the
// models of agents at the providers of the operator's configuration (provider.go),
// whose calls wait in a queue (queue.go) for their limits (limit.go). Tools (tools.go)
// opens the agents' tools. Local (local.go) gives both to steps that no worker runs,
// as in `conclave step`. Below are the operator's settings, the prices of models, and
// the way to a cluster.
package worker
