// Package segment is one segment of a pipeline's step on durable storage: what a
// launch shows is read from the run's directory, rules are made of it, and what
// the segment came to is committed there. It is to package pipeline what member is
// to coordination and team, and knows no Temporal.
//
// Segments of agents, of configured tool calls and of sessions differ in who
// replies (package step's Model) and in nothing else: they are claimed, journaled,
// resumed and committed in the same way.
//
// Start with Step.Spec. What a commit holds is in commit.go, the files made of it
// in document.go, and what people said in message.go.
package agent
