// Package pipeline is the workflow that runs a step graph according to engine/pipeline.
//
// Start with Workflow in workflow.go, which also has the verbs, the records and the result. step.go
// runs one step, as an activity or as the session of a team; clock.go measures the run's time;
// board.go has the input, and shows the run in the Web UI and the memo.
package pipeline
