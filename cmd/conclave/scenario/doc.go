// Package scenario is the wing of scenarios: it writes their files, starts and follows
// their runs, and reports results, as tables, JSON and JUnit. Their directories are
// package project. Start with command.go; run.go checks and starts runs, follow.go
// follows them, report.go prints their results.
package scenario
