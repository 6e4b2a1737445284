// Package workflows has the durable workflows, one package for each product:
//
//   - session drives engine/coordination: a team takes a query to a decision.
//   - pipeline drives engine/pipeline: a step graph, whose steps may be sessions.
//   - scenario drives engine/scenario: one isolated agent for each step.
//   - drive has the parts that all three use: names and limits, activity options,
//     the inbox of requests, the recorder, the memo, and the conversion of outcomes.
//
// A workflow is thin: it steps a pure state machine with the events that have arrived and executes
// the commands that it returns. Rules about votes, answers or graphs do not belong here.
//
// Start with Workflow in session/workflow.go. Only pipeline imports another product, for the input
// and the result of its child sessions.
//
// The code is replayed: it must not use clocks, randomness, range over maps or process state. A run
// keeps the protocol with which it began, and every change to the order of commands depends on it.
// This is verified by workflowcheck, by the histories in testdata and by runs without the workflow
// cache. Package stagetest runs each workflow in tests with the real activities and scripted
// models.
package workflows
