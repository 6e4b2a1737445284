// Package runs is shared by sessions and pipelines: it starts runs, finds and lists them,
// follows them to their end, and sends them queries and updates. Its commands take an ID
// and serve every Kind in package main's table. Start with kind.go.
package runs
