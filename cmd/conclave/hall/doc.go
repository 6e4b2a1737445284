// Package hall is shared by the packages of all commands: streams and common flags (CLI),
// the target of the flags (Target), a connection to it (Connection), checks of arguments,
// printing, and exit codes. It imports no command's package. Start with cli.go.
package hall
