// Package attempt makes one durable attempt of a step, whichever product it
// belongs to: it heartbeats, fences itself off when the server no longer hears it,
// counts attempts without progress, reads the doorbell, and classifies errors for
// Temporal's retries.
//
// Start with Attempt.Perform in attempt.go; end.go has the ways in which an attempt
// ends without an action.
package attempt
