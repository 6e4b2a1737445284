// Package scenario is the workflow that runs a scenario according to engine/scenario.
//
// Start with Workflow in workflow.go, which also has the verbs, and shows the run in the Web UI and
// the memo. end.go runs one step, writes the records and has the result; messages.go has the input.
package scenario
