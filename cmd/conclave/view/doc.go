// Package view implements `conclave view`, which serves the pages of sessions on this
// machine or writes the page of one session to a file. Start with Command in command.go.
package view
