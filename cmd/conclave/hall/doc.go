// Package hall has the code that all commands share: streams and common flags (CLI), the
// target given by the flags (Target), the connection to it (Connection), argument checks,
// printing, and exit codes. It imports no package of a command. Start with cli.go.
package hall
