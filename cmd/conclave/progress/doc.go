// Package progress shows a person, or a log, how a session is getting on.
//
// It only draws: it asks nobody, decides nothing and ends nothing. Whoever
// follows a session hands it one Snapshot after the other. A Board keeps a
// compact block up to date in place on a terminal; Lines writes one plain line
// per event, for pipes, logs and scripts. Text that models wrote reaches either
// only through Plain or Line, which leave nothing that a terminal would obey.
//
// Start with Display; frame.go is what a Board looks like.
package progress
