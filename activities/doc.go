// Package activities is where conclave touches the world: what a Session
// workflow asks for is done here, with heartbeats, fencing and error classes
// around the Temporal-free engine.
//
//   - Prepare resolves the team, refuses one that cannot work here, and claims the session's directory.
//   - RunStep runs one step (engine/step); start in step.go. What it can hear
//     while it runs comes through doorbell.go.
//   - Record writes accepted actions to the ledger, what people said where steps
//     read it, and the files derived from them.
//   - Present places the final answer.
//   - PrepareScenario, RunScenarioStep and RecordScenario are the same for runs of
//     scenarios; evidence.go is the tool by which a step keeps evidence, and
//     scenariomark.go keeps credentials out of everything that is kept.
//
// Vendors are below: openai, s3store, tools and offline import no Temporal, and
// this package imports none of them; worker puts them together.
package activities
