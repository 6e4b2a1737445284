// Package codec encrypts everything that conclave stores in Temporal's histories: inputs, results,
// memos, heartbeats, updates, queries and the messages of failures, each payload by itself with
// AES-256-GCM. Identifiers, times and search attributes stay readable, and so does the bucket, which has
// encryption of its own.
//
// Keys come from the environment (Variable). Start with FromEnvironment and DialOptions. Payloads that
// are not encrypted are read as they are, so a cluster can begin to use keys at any time, and a stock
// client can start sessions without one.
package codec
