// Package session has the activities of the Session workflow:
//
//   - Prepare resolves and validates the team, and claims the session's directory.
//   - Draft makes a preparation, such as evaluation criteria, with a model.
//   - RunStep runs one step of an agent.
//   - RunChecks runs checks on an answer.
//   - Reckon counts the usage of a step that ended without a report.
//   - Record writes accepted actions to the ledger, human messages for running steps, and
//     the documents derived from the history.
//   - Present writes the final answer.
//
// Inputs and results are in session.go. The activities are registered under the names of their
// methods, which workflow histories contain.
//
// Start with RunStep in step.go.
package session
