// Package builtin describes the built-in tools of agents and checks the arguments of their
// calls.
//
// The descriptions are files.json and run_command.json. activities/tools implements the
// tools; engine/config checks the configured calls of pipelines before anything runs.
// Start with Check in builtin.go.
package builtin
