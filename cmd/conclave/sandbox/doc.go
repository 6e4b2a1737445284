// Package sandbox implements `conclave sandbox`. It reports the sandbox level that this
// host offers, attacks the sandbox, and prints which attacks were stopped. Start with
// Attack in check.go.
package sandbox
