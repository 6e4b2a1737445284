// Package session is the workflow in which a team takes a query to a decision, by the
// rules of engine/coordination.
//
// Start with Workflow in workflow.go. step.go launches steps and outcome.go converts
// their ends to events, person.go has the verbs, clock.go the session's time, record.go
// the ledger, memo.go and board.go make the session readable from outside, end.go
// completes it. messages.go has the input and the result.
package session
