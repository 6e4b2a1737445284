// Package codec encrypts everything that conclave stores in Temporal's histories: inputs, results,
// memos, heartbeats, updates, queries and the messages of failures. Each payload is encrypted
// separately with AES-256-GCM. Identifiers, times and search attributes remain readable, as does
// the bucket, which has its own encryption.
//
// Keys come from the environment (Variable). Start with FromEnvironment and DialOptions. Payloads
// that are not encrypted are returned unchanged, so a cluster can start to use keys at any time,
// and clients without a key can start sessions.
package codec
