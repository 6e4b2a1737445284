// Package worker assembles one worker process: the store, the teams, the
// activities and their registration with Temporal.
//
// Start with Config in worker.go and Run in run.go; steps hear of their session
// through doorbell.go. Models builds the models of agents (model.go), at the
// providers of the operator's configuration (provider.go) with their limits and
// prices (limit.go, price.go). Where no worker runs a step, as in `conclave step`,
// Local in local.go gives it the same. Below are the operator's file (settings)
// and how a worker reaches its cluster (cluster).
package worker
