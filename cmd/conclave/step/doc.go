// Package step implements `conclave step`, which runs a single step of an agent in a
// session directory without a server, or checks the directory. Start with command.go;
// launch.go prepares the step, run.go runs it and reports its end.
package step
