// Command conclave takes a question to a decision with a team of agents.
//
// It is a client of workflows that workers run. Some commands run a worker in this
// process. Without an address they join the embedded stack of their data directory, or
// start it for as long as they need it.
//
// Package main has the root command (main.go) and version. Every product and every
// subject has a package of its own:
//
//   - session: run, start, list
//   - pipeline: pipeline run, validate, list
//   - scenario: scenario create, run, status, list, watch, pause, resume, cancel; its
//     directories are package project
//   - step: step, which runs one step in a directory, without a server
//   - runs: watch, status, result, say, pause, resume, finish, retry and cancel, which
//     serve sessions and pipelines by ID; package main fills its table of kinds
//   - pull: pull, which copies and verifies the files of a run
//   - answer: files, diff and apply, which show an answer's files and put them into a
//     directory
//   - view: view, which serves the pages of sessions or writes one; package
//     record reads a session, page renders it, and live keeps the page up to date;
//     recordtest writes sessions for tests
//   - material: upload, and the flags --base and --context
//   - export: export, which translates the record of a session for other tools
//   - transcript: transcript, which prints one step of a run
//   - prune: prune and delete, which remove the files and histories of ended runs
//   - team: config; it reads teams, checks their tools and starts workers for the
//     other packages. Package trust keeps the consent to files that were found
//   - models: models check, which asks every model of a team once
//   - codec: codec key and serve, for the encryption of histories
//   - doctor: doctor, which checks everything that sessions need
//   - eval: eval run, report, compare and gen, which measure whether a team is worth its
//     tokens
//   - stack: dev and worker; the servers of the embedded stack are package devserver,
//     which localstack joins for every command; peer keeps other users of the machine out
//   - sandbox: sandbox check
//   - serve: serve, serve key and mcp, and the HTTP server, which dev runs, too. Package
//     chat makes a team a model of OpenAI's API, package mcpserver a tool of MCP clients;
//     both on package desk, which starts, joins and follows the sessions of programs.
//     Package access admits their requests, and desktest plays Temporal for their tests
//
// All of them share hall: streams, flags, target, connection, printing and exit codes.
// Package progress displays the progress of a run.
//
// Tests run command lines with halltest. Packages e2e, e2e/pages and bench are the end-to-end
// tests, those in a browser, and the benchmarks; chaos tests a cluster of several processes,
// which clustertest starts, under faults.
//
// Start with rootCommand in main.go, then the package of a command. A command's flags are in
// command.go of its package, or in the file named after the command; for one of
// `scenario run`, add a field in scenario/flags.go and define it in runCommand of scenario/run.go.
package main
