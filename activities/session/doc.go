// Package session has the activities of the Session workflow.
//
//   - Prepare resolves the team, refuses one that cannot work here, and claims the
//     session's directory.
//   - RunStep runs one step of a team member.
//   - Record writes accepted actions to the ledger, people's messages where running
//     steps read them, and the files derived from them.
//   - Present places the final answer.
//
// Inputs and results are in session.go. The methods' names are the registered names,
// which are in every history.
package session
