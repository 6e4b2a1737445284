// Package scenario has the activities of the Scenario workflow.
//
//   - PrepareScenario checks the team, claims the run and keeps its definition
//     (definition.go); resume.go continues a run that is over.
//   - RunScenarioStep runs one step. evidence.go has the tool by which it keeps
//     evidence, and credentials.go keeps credentials out of everything stored.
//   - RecordScenario writes result.json and the events.
//
// Inputs and results are in scenario.go. The methods' names are the registered names,
// which are in every history.
package scenario
