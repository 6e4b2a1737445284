// Package scenario is the workflow that runs a scenario according to engine/scenario.
//
// Start with Workflow in workflow.go, which also has the verbs. step.go runs one step, board.go
// shows the run in the Web UI and the memo, and end.go writes result.json. messages.go has the
// input and the result.
package scenario
