// Package callers plays Temporal and its workers for the tests of the servers that answer
// programs: a test ends a session, or has it wait for its caller, whenever it likes.
//
// Start with New in temporal.go.
package callers
