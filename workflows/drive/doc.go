// Package drive has the parts that every wing of workflows uses. Each wing keeps its
// own loop and calls them:
//
//   - names.go has the names and limits that other programs rely on.
//   - activity.go has the options of activities, outcome.go converts their results and
//     waits for cancelled steps.
//   - Ears receives the verbs of people, as signals and updates.
//   - Books writes records, one at a time.
//   - Memo sets the memo, one upsert for each change.
//   - FlushInTime writes the last records of a cancelled run.
//   - Board builds Markdown for the Web UI.
package drive
