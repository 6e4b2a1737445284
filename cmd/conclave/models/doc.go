// Package models implements `conclave models`, which asks every model of a team once, with
// one tool, and prints whether its agents can take part. Start with check in command.go;
// check.go has the call.
package models
