// Package scenario implements `conclave scenario`. It writes scenarios, starts and follows
// their runs, and reports results as tables, JSON, JUnit and a page.
//
//   - validate.go has the command, the flags of scenario run, and the subcommands for one run;
//     create.go, run.go and status.go have those of their names. A new flag of scenario run is a
//     field of flags, which runCommand in run.go defines.
//   - run.go starts runs, follow.go follows them and copies their results, and report.go,
//     recent.go and junit.go report them.
//   - tester.go reads the agent that plays the user.
//   - project_run.go has Project, the local directory of scenarios, and definition.go reads and
//     writes the definitions in it.
//
// A Project has prd.md and, for each scenario, its definition and its runs. All access uses an
// os.Root, so no name or link leads out of the directory. Files are written atomically; invalid
// files are skipped with a warning. After each run the statistics in meta.yaml are computed from
// the results on disk, by one process at a time.
//
// Start with runScenarios in run.go.
package scenario
