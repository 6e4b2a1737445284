// Package scenario is a user-journey test as a pure state machine: an ordered list of steps, each carried out
// by an agent of its own with a fresh conversation, which records evidence and returns pass or fail.
//
// State takes events (Step) and returns commands (Drain), and is plain data at any
// point. Start with State.addResult, which ends a step; package agent runs one. Project
// is prd.md, Definition a scenario as its author writes it, Run a result on record.
//
// # The protocol
//
//  1. Steps run one after another, in the order of the scenario. A run uses the
//     definition as it was when the run began.
//  2. A step reads its own file, the summary of the project, and the id and status
//     of the previous step. The first step is told that it is the first. The length of its
//     first request does not depend on the steps before it.
//  3. A step ends with a verdict, pass or fail. A step without a verdict, because
//     its agent gave none, its limits were reached or its retries were exhausted, ends
//     with error; a step of a cancelled run, with cancelled.
//  4. After the first step that does not pass, only the steps of Plan.After are run; the
//     others are skipped. Verdicts are not retried.
//  5. A run passes if it has steps and all passed; it is cancelled if one step was
//     cancelled, else it fails. It is running until every step has a status. Steps that
//     Plan.Only leaves out are skipped and do not count.
//  6. A run that did not pass can resume from its first step that did not pass: the
//     results before it stay. That step continues from its journal if it has one; a step
//     that had a verdict begins again. Plan.Before and Plan.After run again.
//  7. Each start of a step by a run or its retry is an attempt, whose status, error and
//     evidence are kept. A step that passes after a failure is flaky.
//  8. A step's evidence is in the store. A path that the agent names but the store does
//     not have becomes a warning. So does a pass without evidence; with
//     Plan.RequireEvidence it is an error.
//  9. A step has the tighter of its own limits and the rest of the run's; a step of
//     Plan.After has only its own limits. A retry resets the run's limits.
//  10. A message of a person reaches only the running step or, if none runs, the next one.
package scenario
