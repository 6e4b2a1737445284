// Package start implements the commands that start work: run, start and list for sessions,
// `conclave pipeline`, and `conclave step`.
//
// Sessions: command.go has the commands and checks the input of a session, checks.go and
// continue.go its flags --checks and --continue. kind.go describes sessions for the commands that
// take an ID, and result.go prints their results.
//
// Pipelines: pipeline_run.go has the commands, reads files and starts runs; pipeline_validate.go
// checks and draws them; pipeline_kind.go describes runs and prints their results.
//
// Steps: step_command.go runs a single step of an agent in a session directory without a server, or
// checks the directory; launch.go prepares the step, run.go runs it and reports its end.
//
// Start with withNew in command.go.
package start
