// Package scenario implements `conclave scenario`. It writes scenarios, starts and follows
// their runs, and reports results as tables, JSON and JUnit. Package project manages their
// directories. Start with command.go; run.go starts runs and follow.go follows them. A flag of
// `scenario run` is a field in flags.go, which runCommand in run.go defines.
package scenario
