// Package bench measures the built conclave binary as a user has it: how soon
// the first model call comes, what a step costs beyond its model, what a session
// leaves in the history, and how much memory and how many requests to the store
// it takes. The model is scripted HTTP with a delay of its own.
//
// It checks nothing: sessions are checked in e2e, and a missed target is a row
// of the table and not a failure.
//
// The benchmarks have the build tag bench. `make bench` builds what they need
// and prints the table (package table below); docs/benchmarks.md says what the
// rows mean. Start with session_test.go.
package bench
