// Package stack is the part of the command that keeps processes running: dev serves
// the embedded stack of a data directory with a worker, worker serves a cluster or a
// data directory with a worker alone. It is the only room that links the embedded
// servers, for the hidden command of their process.
package stack
