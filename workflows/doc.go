// Package workflows drives the engine durably. A workflow here is thin: it
// feeds what has completed to a pure state machine as events and carries out
// the commands that come back. There is no rule about votes or answers in this
// package; it belongs in engine/coordination.
//
// Start with Session in session.go. messages.go has the names and payloads that
// other people's programs use, options.go the timeouts and retry policies.
//
// Code here is replayed: no clock, no randomness, no maps ranged over, nothing
// of the process. workflowcheck, recorded histories and runs with the workflow
// cache off guard that.
package workflows
