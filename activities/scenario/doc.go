// Package scenario has the activities of the Scenario workflow:
//
//   - PrepareScenario validates the team, claims the run and stores its definition
//     (prepare.go); resume.go continues an ended run.
//   - RunScenarioStep runs one step. evidence.go has the tool that stores its evidence;
//     credentials.go keeps credentials out of the store.
//   - ReckonScenarioStep counts the usage of a step that ended without a report.
//   - RecordScenario writes result.json and the events.
//
// Most inputs and results are in prepare.go. The activities are registered under the names of their
// methods, which workflow histories contain.
//
// Start with RunScenarioStep in step.go.
package scenario
