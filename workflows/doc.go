// Package workflows drives the engine durably. A workflow here is thin: it
// feeds what has completed to a pure state machine as events and carries out
// the commands that come back. There is no rule about votes or answers in this
// package; it belongs in engine/coordination.
//
// Start with Session in session.go: one coroutine, one selector. launch.go starts
// steps and outcome.go makes events of their ends; person.go is what people ask,
// by signal or update; clock.go the session's time, which stands still while the
// session is held; memo.go what is readable without a worker, the doorbell of
// running steps among it; record.go the ledger. messages.go has the names and
// payloads that other people's programs use, options.go the timeouts and retry
// policies.
//
// Scenario in scenario.go is the same for the runs of scenarios, whose rules are in
// engine/scenario: scenariostep.go starts steps and makes events of their ends,
// scenarioend.go writes result.json, scenarioperson.go is what people ask.
//
// Code here is replayed: no clock, no randomness, no maps ranged over, nothing
// of the process. A session keeps the protocol it began with: whatever changes
// the order of commands asks for it. workflowcheck, recorded histories and runs
// with the workflow cache off guard that.
package workflows
