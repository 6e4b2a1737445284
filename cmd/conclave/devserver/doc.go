// Package devserver is the embedded stack: a Temporal server on SQLite, its Web UI and
// an S3 server in one child process of our own binary, so that a session on a laptop
// runs on the same components as one on a cluster. It serves one directory on
// loopback to one user (package peer), and is not for production. No other package
// imports the servers.
//
// Start with RunChild, the main function of that process. Commands start and find it
// through package localstack.
//
// The data directory has temporal-<server version>.db, s3/ with one plain file per
// object, and logs/stack.log.
package devserver
