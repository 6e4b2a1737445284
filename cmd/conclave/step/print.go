package step

import (
	"fmt"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

// print prints the action of a step: for a script last_action.json.
func (s *stepSession) print(last *artifact.LastAction) error {
	if s.cli.Scripted() {
		return s.cli.PrintJSON(last)
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
	if _, err := fmt.Fprintln(s.cli.Stdout, strings.TrimRight(text.Terminal(words), "\n")); err != nil {
		return hall.Exitf(hall.ExitNoAnswer, "print the action: %w", err)
	}
	s.cli.Infof("\n%s · step %d · %s · %s", last.AgentID, last.StepNumber, last.Action, progress.Cost(last.Cost))
	if last.WorkspacePath != nil {
		s.cli.Infof("files: %s", *last.WorkspacePath)
	}
	return nil
}
