// Package bench measures the built conclave binary as a user has it: how soon
// the first model call comes, what a step costs beyond its model, what a session
// leaves in the history, how much memory and how many requests to the store it
// takes, what the ways of pacing a team cost, what a killed worker does, what a
// scenario saves that gives each step an agent of its own, and what 200 steps at
// the same time need. The models are HTTP with delays of their own.
// Single steps with many files are run in the benchmark's own process, on the
// store of an embedded stack (desk_test.go).
//
// It checks nothing: sessions are checked in e2e, and a missed target is a row
// of the table and not a failure.
//
// The benchmarks have the build tag bench. `make bench` builds what they need
// and prints the table (package table below); docs/benchmarks.md says what the
// rows mean. Start with session_test.go.
package bench
