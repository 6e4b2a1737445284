// Command conclave-worker is a worker process for a cluster, and nothing else: it
// runs sessions and their steps until it is told to stop. It does what `conclave
// worker` does with an address, without the embedded server in the binary.
//
// Temporal is found by flags, TEMPORAL_* and temporal.toml, the bucket's
// credentials and endpoint by AWS_*; teams, providers and limits are in the file
// of --worker-config. Start with command.go.
package main
