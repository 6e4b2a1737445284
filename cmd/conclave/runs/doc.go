// Package runs has the code that sessions and pipelines share: it starts runs, finds and
// lists them, follows them to their end, and sends them queries and updates. Its commands
// take an ID and work for every Kind in package main's table. Start with kind.go.
package runs
