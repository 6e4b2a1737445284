package main

import (
	"fmt"
	"strings"

	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
)

// print prints the action of a step: for a script last_action.json.
func (s *stepSession) print(last *artifact.LastAction) error {
	if !s.cli.people() {
		return s.cli.printJSON(last)
	}
	words := ""
	switch coordination.Action(last.Action) {
	case coordination.NewAnswer:
		words = *last.AnswerText
	case coordination.Vote:
		words = fmt.Sprintf("%s votes for %s: %s", last.AgentID, *last.VoteTarget, *last.VoteReason)
	default:
		words = last.AgentID + " stops"
	}
	if _, err := fmt.Fprintln(s.cli.stdout, strings.TrimRight(progress.Plain(words), "\n")); err != nil {
		return end(exitNoAnswer, "print the action: %w", err)
	}
	s.cli.say("\n%s · step %d · %s · %s", last.AgentID, last.StepNumber, last.Action, progress.Cost(last.Cost))
	if last.WorkspacePath != nil {
		s.cli.say("files: %s", *last.WorkspacePath)
	}
	return nil
}
