// Package bench measures the built conclave binary as users run it:
//
//   - the time to the first model call
//   - the cost of a step without its model
//   - the size of a session's history, its memory and its requests to the store
//   - the cost of each pacing
//   - the recovery from a killed worker
//   - the tokens that a scenario saves by giving each step an agent
//   - 200 steps at once
//
// Models are HTTP servers with delays. Single steps with many files run in the
// benchmark's own process on the store of an embedded stack (desk_test.go).
//
// Benchmarks check nothing: package e2e checks sessions, and a missed target is not a
// failure. They have the build tag bench. `make bench` builds the binary and prints
// tables with benchstat; docs/benchmarks.md explains the numbers and lists the
// targets. Start with session_test.go.
package bench
