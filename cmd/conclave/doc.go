// Command conclave takes a question to a decision with a team of agents.
//
// It is a client: what happens in a session is decided in engine/coordination
// and carried out by workers. Some commands run such a worker in their own
// process, and without an address they join the embedded stack of their data
// directory (package devserver), or start it for as long as they need it.
//
// Start with command.go, which has the command tree; every command has a file
// of its own name. What they share: connect.go finds the place where sessions
// run, team.go the team and its keys, launch.go starts a session, update.go asks
// something of a running one, follow.go watches one to its end with package
// progress, hold.go says what a held one waits for, answer.go prints what came
// out, and exit.go turns every end into an exit code and a sentence. What a
// session leaves behind is copied and verified by package pull, and a step of it
// shown by package transcript. Scenarios are in a directory of their own kind,
// package project; scenariorun.go starts their runs and scenariotrial.go follows
// them. One step in a directory needs no stack: step.go checks the wish,
// steplaunch.go finds what to launch, steprun.go runs it.
package main
