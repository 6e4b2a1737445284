// Package stack implements the long-running commands: dev serves the embedded stack of a
// data directory, and worker serves a cluster or a data directory. No other package links
// the embedded servers; they run in the process of a hidden command. Start with dev.go and
// worker.go.
package stack
