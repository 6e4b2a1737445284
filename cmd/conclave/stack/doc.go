// Package stack implements the commands that keep processes running: dev serves the
// embedded stack of a data directory, worker serves a cluster or a data directory. Only
// this package links the embedded servers, for the hidden command of their process.
package stack
