// Package attempt runs one durable attempt at a step of any product. It sends heartbeats, fences
// the step off while the server does not acknowledge them, counts attempts without progress, reads
// the doorbell, and classifies errors for Temporal's retries.
//
// Start with Attempt.Perform in attempt.go. steps.go finds the step of an attempt in this process,
// heartbeat.go, doing.go and fence.go keep it alive and report it, and read news; end.go
// and outage.go handle attempts that end without an action.
package attempt
