// Package check runs checks on answers: those that agents hand in with an answer, and those of the user.
//
// A directory of checks has executable files, each of them a check, or a file checks.yaml
// that lists commands, or both. Find reads it from a manifest; Runner runs one check in a
// fresh copy of an answer's files. Package coordination decides which outcomes count.
//
// Start with Find in definition.go, then Runner.Run in run.go.
package check
