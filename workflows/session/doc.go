// Package session is the workflow in which a team takes a query to a decision, according to
// engine/coordination.
//
// Start with Workflow in workflow.go, which also has the verbs. step.go launches steps and converts
// their ends to events, clock.go measures the session's time, record.go writes the ledger, board.go
// shows the session in the Web UI and the memo, and end.go completes it. draft.go makes the
// preparations; messages.go has the input and the result.
package session
