// Package devserver is the embedded stack: a Temporal server on SQLite, its Web UI and
// an S3 server, together one child process of our own binary, so that a session on a
// laptop runs on the same parts as one on a cluster. It is for development only: one
// process, one directory, loopback only. No other package imports the servers.
//
// Start with RunChild, the life of that process. Commands reach it by package
// localstack, which also has the child's side of their agreement.
//
// The data directory has temporal-<server version>.db, s3/ with one plain file per
// object, and logs/stack.log.
package devserver
