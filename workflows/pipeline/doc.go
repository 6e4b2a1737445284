// Package pipeline is the workflow that runs a step graph according to engine/pipeline.
//
// Start with Workflow in workflow.go, which also has the verbs. step.go runs one step, as an
// activity or as the session of a team; board.go shows the run in the Web UI and the memo; end.go
// writes its records. messages.go has the input and the result.
package pipeline
