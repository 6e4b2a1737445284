// Package session implements run, start and list. It checks the input of sessions, starts
// them, and shows their progress, state and result. Start with command.go; order.go chooses the
// team of a new session, result.go prints results, and Kind describes sessions for the commands
// that take an ID.
package session
