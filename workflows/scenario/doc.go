// Package scenario is the workflow that runs a scenario, by the rules of
// engine/scenario.
//
// Start with Workflow in workflow.go, which also has the verbs. step.go runs one step,
// board.go shows the run in the Web UI and the memo, end.go writes result.json. messages.go
// has the input and the result.
package scenario
