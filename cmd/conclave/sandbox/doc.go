// Package sandbox is `conclave sandbox`: it reports the sandbox level that this host
// offers, runs attacks against it, and prints which of them were stopped.
package sandbox
