// Package runs has the code that sessions, pipeline runs and scenario runs share. Each kind describes
// itself by a Kind; the table of kinds is in package main.
//
//   - kind.go has Kind and Run, and finds the run that an ID names.
//   - lifecycle.go starts runs, awaits their ends, and prints their texts and states.
//   - report.go has the Reporter of a kind, from which Reported makes the actions of the commands;
//     it also explains how a run ended.
//   - follow.go and activity.go follow a run and describe the work of its steps.
//   - update.go and reopen.go send requests to open and ended runs, and query them.
//   - list.go and search.go list runs; commands.go has the commands that take an ID, and
//     complete.go completes their arguments in a shell.
//
// Start with kind.go.
package runs
