// Package roster lets others notice the death of a worker process at once. A process
// writes the task tokens of its running activities to a file that it locks for its life;
// whoever finds the lock free reports those activities as failed, so that Temporal gives
// them to another worker long before their heartbeat timeout.
//
// Start with Open, which a worker calls, and Reap, which its successor and the embedded
// stack call. A token stands for one attempt: reporting one of an attempt that has ended
// does nothing.
package roster
