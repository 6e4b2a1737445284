// Package roster detects the death of a worker process at once. A process writes the task tokens of
// its running activities to a file, which it keeps locked while it runs. A process that finds the
// lock free reports those activities as failed, so that Temporal gives them to another worker long
// before their heartbeat timeout.
//
// Start with Open, which a worker calls, and Reap, which other workers and the embedded stack call.
// A token identifies one attempt: reporting it after the attempt has ended has no effect.
package roster
