// Package hall is shared by all rooms of the command: the streams and common flags of
// one invocation (CLI), the target of its flags (Target), a connection to it
// (Connection), checks of arguments, printing, and exit codes. It imports no room. Start
// with cli.go.
package hall
