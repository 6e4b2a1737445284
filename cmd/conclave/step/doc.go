// Package step implements `conclave step`, which runs one step of one agent in a session
// directory, without a server, or checks the directory. Start with command.go; launch.go
// finds the step to run, run.go runs it and reports its end.
package step
