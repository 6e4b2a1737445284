// Package drive has the parts that the workflows of all products share. Each workflow has its own
// loop and calls them:
//
//   - names.go has the names and limits on which other programs rely.
//   - activity.go has the options of activities. outcome.go converts their results and
//     waits for cancelled steps.
//   - Inbox receives people's requests, as signals and updates. SignalOrder keeps the order of
//     signals for it.
//   - Recorder writes records, one at a time.
//   - Reckoning completes the end of a step that did not report its usage.
//   - Memo sets the memo with one upsert per change; Index sets the search attributes at
//     the beginning and at the end.
//   - FlushInTime writes the last records of a cancelled run.
//   - Board builds Markdown for the Web UI.
//
// Start with Listen in inbox.go.
package drive
