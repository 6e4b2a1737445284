// Package attempt runs one durable attempt at a step of any product. It sends heartbeats, fences
// the step off while the server does not acknowledge them, counts attempts without progress, reads
// the doorbell, and classifies errors for Temporal's retries.
//
// Start with Attempt.Perform in attempt.go. end.go handles attempts that end without an action.
package attempt
