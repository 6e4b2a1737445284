// Package models implements `conclave models`. It calls every model of a team once, with
// one tool, and prints whether the model's agents can take part. Start with check in
// command.go; check.go makes the call.
package models
