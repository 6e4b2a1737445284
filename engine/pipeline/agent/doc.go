// Package agent runs one launch of a pipeline's step on durable storage: it reads the texts that a launch
// shows, judges replies, and commits the result in the run's directory.
//
// Steps of agents, of configured tool calls and of sessions differ only in the model (package step's Model):
// they are claimed, journaled, resumed and committed in the same way. Start with Step.Spec in step.go, which
// also has the commit and its documents; the rules are in rules.go; values.go fills templates. The messages
// of `conclave say` enter a running step's prompt in rules.go, and the question of a team in task.go.
package agent
