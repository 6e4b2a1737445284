// Package cli has the code that all commands share. It imports no package of a command.
//
//   - cli.go and root.go: CLI, with streams, common flags, help, printing and exit codes
//   - connection.go: Target, the cluster or stack that the flags name, and the Connection to it
//   - arguments.go: checks of arguments, and Query, which reads the text of a question
//   - display.go, frame.go and activity.go: the progress of a session, for a person or a log
//
// The caller of the progress passes a Snapshot to a Display at each interval. On a terminal a
// Display redraws a compact block in place (frame.go); for pipes, logs and scripts it writes one
// plain line per event. Both pass texts of models through Line, which removes control sequences.
//
// Start with CLI in cli.go.
package cli
