// Package scenario has the activities of the Scenario workflow.
//
//   - PrepareScenario checks the team, claims the run and stores its definition
//     (definition.go); resume.go continues an ended run.
//   - RunScenarioStep runs one step. evidence.go has the tool that stores its evidence,
//     and credentials.go keeps credentials out of the store.
//   - ReckonScenarioStep counts the usage of a step that ended without reporting it.
//   - RecordScenario writes result.json and the events.
//
// Inputs and results are in scenario.go. The methods' names are the registered names,
// which every history contains.
package scenario
