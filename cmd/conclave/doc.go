// Command conclave takes a question to a decision with a team of agents.
//
// It is a client of workflows that workers run. Some commands run a worker in this process. Without an
// address they join the embedded stack of their data directory, or start it for as long as they need it.
//
// Package main has the root command (main.go), its groups and common flags (groups.go), version
// and man (groups.go). Everything else is on one of six floors. A package imports those of its own floor and of the floors below it:
// command > view > api > run > cli > local. No floor imports package main or, outside of
// its tests, test.
//
// command has the commands:
//
//   - command/start: run, start, list, step, and pipeline run, list and validate
//   - command/scenario: scenario create, validate, run, status, list, watch, pause, resume,
//     cancel, and the directories of scenarios
//   - command/files: pull, prune, delete, export, transcript and view, which read or remove the files of runs
//   - command/eval: eval run, report, compare, gen, replay and calibrate, which measure whether a team is
//     worth its tokens
//   - command/serve: serve, serve key and mcp, the servers for programs; dev and worker
//   - command/doctor: doctor, models check and list, sandbox check, codec key and codec serve
//
// view shows runs in a browser:
//
//   - view/web serves the pages of runs and keeps them up to date
//   - view/page renders a page from a record
//
// api has the servers for programs:
//
//   - api/chat makes a team a model of OpenAI's API
//   - api/mcp makes a team a tool of MCP clients
//   - api/gateway starts, joins and follows the sessions of both
//   - api/access admits the requests of every HTTP server
//
// run serves runs of every kind:
//
//   - run: watch, status, result, say, pause, resume, finish, retry and cancel, for the ID of
//     a run of any kind; package main fills its table of kinds
//   - run/record reads the records of runs in a store
//   - run/outputs: files, diff and apply, for the files of an answer
//   - run/inputs: upload, and the flags --base and --context
//   - run/teams: config; it reads teams, keeps the consent to those that were found, and runs
//     workers in this process
//
// cli is shared by all commands: streams, common flags, target, connection, exit codes and
// the display of progress.
//
// local is the stack of one machine:
//
//   - local joins or starts the stack of a data directory and keeps other users of the machine out
//   - local/server is that stack: Temporal, its Web UI and an S3 server in a child process;
//     local/server/stubs replaces those of its modules that conclave never calls
//
// test has the parts and the suites of tests:
//
//   - test/stage runs command lines, and the servers of a cluster as processes
//   - test/callers plays Temporal for the tests of api
//   - test/e2e has the end-to-end tests, also those in a browser; test/bench the benchmarks
//   - test/chaos tests a cluster of several processes under faults
//
// Start with rootCommand in main.go, then the package of a command.
//
// To add a flag, add a field to the flags of its command, next to the constructor of the
// command (the function that returns a *cobra.Command with its name in Use), and define it
// there. A flag that several commands share has its home in cli, run/inputs or run/teams. To
// add a command, write its constructor in a package of the floor command, or on the floor run if
// it serves every kind of run, list it in rootCommand and give it a group in groupCommands.
package main
