// Package runs is the part of the command that sessions and pipelines share: it
// starts runs, finds and lists them, follows them to their end, and sends them
// queries and updates. Its commands take an ID and serve every kind: watch, status,
// result, say, pause, resume, finish, retry and cancel.
//
// A product describes itself by a Kind; package main fills the table of them. Start
// with kind.go.
package runs
