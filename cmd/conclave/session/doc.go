// Package session is the wing of sessions: it checks the input of run and start,
// starts sessions, shows their progress, state and result, and lists them. Start with
// command.go; Kind is the session's part in the commands that take an ID.
package session
