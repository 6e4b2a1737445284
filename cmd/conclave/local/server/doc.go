// Package server is the embedded stack: a Temporal server on SQLite, its Web UI and an S3 server in one child
// process of the conclave binary. Sessions on a laptop therefore use the same components as on a cluster. The
// stack serves one data directory to one user (local.Gate) on loopback and is not meant for production. No
// other package imports the servers.
//
// Start with RunChild, the main function of that process. Commands start and find it through package local.
//
// The data directory has temporal-<server version>.db, s3/ with one plain file per
// object, and logs/stack.log.
package server
