// Package workflows has the code that the durable workflows share. Each workflow has a package of its own
// below it, one for each product:
//
//   - session drives engine/coordination: a team takes a query to a decision.
//   - pipeline drives engine/pipeline: a step graph, whose steps may be sessions.
//   - scenario drives engine/scenario: one isolated agent for each step.
//   - stagetest runs all of them in tests, with the real activities and scripted models.
//
// A workflow is thin: it steps a pure state machine with the events that have arrived and executes
// the commands that it returns. Rules about votes, answers or graphs do not belong here. Only
// pipeline imports another product, for the input and the result of its child sessions.
//
// Each workflow has its own loop and calls the parts of this package:
//
//   - inbox.go: Listen and Inbox receive people's requests, as signals and updates. SignalOrder
//     keeps the order of signals for it.
//   - input.go decodes inputs and requests, and reports their faults.
//   - recorder.go: Recorder writes records, one at a time; FlushInTime writes the last ones of a
//     cancelled run; Index sets the search attributes at the beginning and at the end.
//   - outcome.go has the options of activities, converts their results, completes the end of a step
//     that did not report its usage (Reckoning), and waits for cancelled steps.
//   - notify.go: Teller has the receivers of a worker told of waits and ends; Notify delivers one notice.
//   - board.go has the names and limits on which other programs rely. Memo sets the memo with one
//     upsert per change, and Board builds Markdown for the Web UI.
//
// The code is replayed: it must not use clocks, randomness, range over maps or process state. A run keeps the
// protocol with which it began, and every change to the order of commands depends on it. This is verified by
// workflowcheck, by the histories in testdata and by runs without the workflow cache.
//
// Start with Workflow in session/workflow.go, then with Listen in inbox.go.
package workflows
