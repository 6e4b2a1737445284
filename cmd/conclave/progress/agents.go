package progress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/text"
)

// agentRows returns the agents' rows, with the columns aligned by the widest ID. The last column is
// truncated.
func agentRows(s Snapshot, width int, color bool) []string {
	idWidth, wordWidth := 0, 0
	for _, a := range s.State.Agents {
		_, words, _ := agentWords(s.State, a)
		idWidth = max(idWidth, len(a.ID))
		if !failed(a) { // a failed agent has no details
			wordWidth = max(wordWidth, ansi.StringWidth(words))
		}
	}
	rows := make([]string, 0, len(s.State.Agents))
	for _, a := range s.State.Agents {
		mark, words, p := agentWords(s.State, a)
		words = ansi.Truncate(words, max(wordWidth, width-idWidth-5), "…")
		row := fmt.Sprintf("  %s %-*s  %s", p.on(mark, color), idWidth, a.ID, p.on(words, color))
		if !failed(a) {
			row += strings.Repeat(" ", max(0, wordWidth-ansi.StringWidth(words))) + "  " + faint.on(agentDetail(a, s.Received[a.ID]), color)
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return rows
}

// failed reports whether an agent has failed and its step is not retried.
func failed(a coordination.AgentView) bool { return a.Error != nil && !a.Running && a.Doing == nil }

// agentWords describes the current or the last step of an agent.
func agentWords(s acts.State, a coordination.AgentView) (mark, words string, p paint) {
	switch {
	case failed(a):
		return "✗", "failed: " + failureWords(s, a), red
	case a.Error != nil && !a.Running:
		return "!", "waiting for its model's server", yellow
	case a.Running:
		return "●", workWords(a.Purpose, a.Step+1), cyan
	case a.Vote != nil && a.Vote.Stale:
		return "!", "vote for " + Line(a.Vote.TargetLabel) + " is stale", yellow
	case a.Vote != nil:
		return "✓", "voted for " + Line(a.Vote.TargetLabel), green
	case a.Stop != nil:
		return stopWords(a.Stop)
	case a.Answers > 0:
		return "✓", "answered", green
	case s.Phase == coordination.PhaseDone:
		return "·", "no answer", faint
	default:
		return "·", "waiting", faint
	}
}

// failureWords describes the error of a failed agent. It does not repeat an error that an
// agent above also has.
func failureWords(s acts.State, a coordination.AgentView) string {
	first := slices.IndexFunc(s.Agents, func(b coordination.AgentView) bool { return failed(b) && *b.Error == *a.Error })
	if first >= 0 && s.Agents[first].ID != a.ID {
		return "the same error as " + s.Agents[first].ID
	}
	return Line(a.Error.Type + ": " + a.Error.Message)
}

// workWords describes a running step.
func workWords(purpose coordination.Purpose, step int) string {
	switch purpose {
	case coordination.Present:
		return fmt.Sprintf("presenting (step %d)", step)
	case coordination.Evaluate:
		return fmt.Sprintf("judging the answer (step %d)", step)
	case coordination.Evaluation:
		return "being evaluated"
	default:
		return fmt.Sprintf("working on step %d", step)
	}
}

// stopWords describes a stop.
func stopWords(stop *coordination.StopView) (mark, words string, p paint) {
	switch {
	case stop.Stale:
		return "!", "stop is stale", yellow
	case stop.Status == coordination.Blocked:
		return "!", "blocked", yellow
	default:
		return "✓", "done with its part", green
	}
}

// agentDetail returns the details of an agent, with the summary of its stop last.
// received are the last answers that one of its steps received.
func agentDetail(a coordination.AgentView, received coordination.Entry) string {
	const gist = 120
	var parts []string
	if a.LatestLabel != "" {
		parts = append(parts, a.LatestLabel)
	}
	if a.Evaluation != nil {
		parts = append(parts, evaluationWords(*a.Evaluation, a.LatestLabel))
	}
	if a.Running && a.Vote != nil {
		vote := "vote for " + Line(a.Vote.TargetLabel)
		if a.Vote.Stale {
			vote = "stale " + vote
		}
		parts = append(parts, vote)
	}
	if received.Step == a.Step && received.Step > 0 && !a.Running {
		parts = append(parts, "received "+Line(received.Label)+" at work")
	}
	if n := a.Cost.InputTokens + a.Cost.OutputTokens; n > 0 {
		parts = append(parts, Count(n)+" tokens")
	}
	if a.Stop != nil && a.Stop.Summary != "" {
		parts = append(parts, text.Truncate(Line(a.Stop.Summary), gist))
	}
	return strings.Join(parts, " · ")
}
