//go:build bench

// Command table prints what `make bench` has measured as one table: what, the
// median of all runs, the target, and the command that measures it again. It
// reads the output of `go test -bench` on its standard input.
//
// It compares no two runs: benchstat does, on the same input.
package main
