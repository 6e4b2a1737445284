// Package scenario is the workflow that runs a scenario, by the rules of
// engine/scenario.
//
// Start with Workflow in workflow.go. step.go runs one step, person.go has the verbs,
// board.go makes the run readable from outside, end.go writes result.json. messages.go
// has the input and the result.
package scenario
