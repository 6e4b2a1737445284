// Package scenario is a user-journey test: an ordered list of steps, each carried
// out by an agent of its own with a fresh conversation, which records evidence and
// returns pass or fail. It knows no Temporal, no store and no browser.
//
// State is the run: it takes events (Step) and hands out commands (Drain), and is
// plain data at any point. Rules are how a step's agent is judged: it ends with
// report_result. Summary is what a step is told of the project, Task what else it
// is told. Start with State.settle, where it is decided what follows a step.
//
// # The protocol
//
//  1. Steps run one after another, in the order of the scenario. What runs is the
//     definition as it was when the run began.
//  2. A step is told its own file, the summary of the project, and the id and
//     status of the step before it; the first one, that it is the first. Nothing
//     else: how long its first request is does not depend on the steps before it.
//  3. A step ends with a verdict, pass or fail. A step without a verdict, because
//     its agent came to none, its time ran out or its retries were exhausted, ends
//     with error; a step of a run that was cancelled, with cancelled.
//  4. The first step that does not pass ends the run; the steps after it are
//     skipped. Verdicts are never tried again by themselves.
//  5. The status of a run is made of those of its steps: pass if all of them
//     passed and there is one, cancelled if one was cancelled, else fail. It is
//     running until every step has a status.
//  6. A run that did not pass can be gone on with from its first step that did not
//     pass: the results before it stay. The step goes on with its journal if it
//     has one, except that a verdict is made anew.
//  7. What an agent recorded is what the store holds of its step. Paths that it
//     names and the store does not have become warnings.
package scenario
