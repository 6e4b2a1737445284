// Package session is the workflow in which a team takes a query to a decision, according to
// engine/coordination.
//
// Start with Workflow in workflow.go, which also has the verbs and the ledger. step.go launches
// steps and converts their ends to events, checks.go runs checks and makes the preparations, clock.go
// measures the session's time, and end.go completes it with the result of result.go. board.go has the input,
// and shows the session in the Web UI and the memo.
package session
