// Package scenario implements `conclave scenario`: it writes scenarios, starts and follows
// their runs, and reports results, as tables, JSON and JUnit. Their directories are package
// project. Start with command.go; run.go starts runs, follow.go follows them.
package scenario
