package progress

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"conclave/engine/coordination"
	"conclave/workflows"
)

// paint colours a piece of text. Meaning never depends on it: marks and words
// say the same.
type paint string

const (
	faint  paint = "2"
	bold   paint = "1"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	cyan   paint = "36"
)

func (p paint) on(text string, color bool) string {
	if !color || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// Table is a session as a table for a single look, without colours.
func Table(s Snapshot) []string {
	const unlimited = 1 << 16
	return frame(s, unlimited, unlimited, false)
}

// frame draws a session in at most height-1 lines, so that the line below the
// block stays free. Lines may be wider than width; the screen cuts them.
func frame(s Snapshot, width, height int, color bool) []string {
	lines := []string{header(s, width, color)}
	if query := Line(s.State.Query); query != "" {
		lines = append(lines, faint.on("  "+query, color))
	}
	foot := footer(s, color)
	rows := agentRows(s, width, color)
	if len(s.Delays) > 0 && len(lines)+len(rows)+len(s.Delays)+len(foot) < height {
		rows = withDelays(s, rows, color)
	} else if len(s.Delays) > 0 {
		foot = append(foot, "  "+yellow.on(delaySummary(s.Delays), color))
	}
	if room := max(1, height-1-len(lines)-len(foot)); len(rows) > room {
		hidden := len(rows) - room + 1
		rows = append(rows[:room-1:room-1], faint.on(fmt.Sprintf("  … and %d more", hidden), color))
	}
	return append(append(lines, rows...), foot...)
}

// withDelays puts each agent's delay under its row, and those of other work
// under all of them.
func withDelays(s Snapshot, rows []string, color bool) []string {
	var all []string
	shown := map[string]bool{}
	for i, a := range s.State.Agents {
		all = append(all, rows[i])
		shown[a.ID] = true
		for _, d := range s.Delays {
			if d.Agent == a.ID {
				all = append(all, "    "+yellow.on(d.words(), color))
			}
		}
	}
	for _, d := range s.Delays {
		if !shown[d.Agent] {
			all = append(all, "  "+yellow.on(d.who()+": "+d.words(), color))
		}
	}
	return all
}

// delaySummary is all delays where there is one line for them.
func delaySummary(delays []Delay) string {
	text := delays[0].who() + ": " + delays[0].words()
	if more := len(delays) - 1; more > 0 {
		text = fmt.Sprintf("%d held up; %s", len(delays), text)
	}
	return text
}

// slim is the width in columns below which the session's ID gives way to what
// changes.
const slim = 50

func header(s Snapshot, width int, color bool) string {
	id, rest := Line(s.State.SessionID), headerWords(s, color)
	if width < slim {
		const least = 5 // of the ID: its end, which tells sessions of one day apart
		room := max(least, width-1-ansi.StringWidth(" · "+rest))
		if over := ansi.StringWidth(id) - room; over > 0 {
			id = ansi.TruncateLeft(id, over+1, "…")
		}
	}
	return bold.on(id, color) + " · " + rest
}

// headerWords are what follows the ID.
func headerWords(s Snapshot, color bool) string {
	parts := []string{stageWords(s.State)}
	if s.State.Round > 0 {
		parts = append(parts, fmt.Sprintf("round %d", s.State.Round))
	}
	parts = append(parts, Clock(s.Elapsed))
	if s.State.Paused {
		parts = append(parts, yellow.on("paused", color))
	}
	if s.Offline {
		parts = append(parts, yellow.on("offline models", color))
	}
	return strings.Join(parts, " · ")
}

// stageWords say how far a session is, or how it ended.
func stageWords(s workflows.State) string {
	if s.Status != "" && s.Status != workflows.Running {
		return Line(s.Status)
	}
	switch s.Phase {
	case coordination.PhaseInitialAnswers:
		return "first answers"
	case coordination.PhaseDone:
		return "finishing"
	case "":
		return "starting"
	default:
		return Line(string(s.Phase))
	}
}

// agentRows are aligned by the widest ID; a narrow terminal does without the
// last columns.
func agentRows(s Snapshot, width int, color bool) []string {
	idWidth, wordWidth := 0, 0
	for _, a := range s.State.Agents {
		_, words, _ := agentWords(a)
		idWidth = max(idWidth, len(a.ID))
		if a.Error == nil { // nothing stands after an error
			wordWidth = max(wordWidth, ansi.StringWidth(words))
		}
	}
	rows := make([]string, 0, len(s.State.Agents))
	for _, a := range s.State.Agents {
		mark, words, p := agentWords(a)
		words = ansi.Truncate(words, max(wordWidth, width-idWidth-5), "…")
		row := fmt.Sprintf("  %s %-*s  %s", p.on(mark, color), idWidth, a.ID, p.on(words, color))
		if a.Error == nil {
			row += strings.Repeat(" ", max(0, wordWidth-ansi.StringWidth(words))) + "  " + faint.on(agentDetail(a), color)
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return rows
}

// agentWords says what an agent is doing, or what it did last.
func agentWords(a coordination.AgentView) (mark, words string, p paint) {
	switch {
	case a.Error != nil:
		return "✗", "failed: " + Line(a.Error.Type+": "+a.Error.Message), red
	case a.Running:
		return "●", "working on step " + fmt.Sprint(a.Step+1), cyan
	case a.Vote != nil && a.Vote.Stale:
		return "!", "vote for " + Line(a.Vote.TargetLabel) + " is stale", yellow
	case a.Vote != nil:
		return "✓", "voted for " + Line(a.Vote.TargetLabel), green
	case a.Answers > 0:
		return "✓", "answered", green
	default:
		return "·", "waiting", faint
	}
}

func agentDetail(a coordination.AgentView) string {
	var parts []string
	if a.LatestLabel != "" {
		parts = append(parts, a.LatestLabel)
	}
	if a.Running && a.Vote != nil {
		parts = append(parts, voteWords(a.Vote))
	}
	if n := a.Cost.InputTokens + a.Cost.OutputTokens; n > 0 {
		parts = append(parts, Count(n)+" tokens")
	}
	return strings.Join(parts, " · ")
}

func voteWords(v *coordination.VoteView) string {
	if v.Stale {
		return "stale vote for " + Line(v.TargetLabel)
	}
	return "vote for " + Line(v.TargetLabel)
}

func footer(s Snapshot, color bool) []string {
	votes := "no fresh votes"
	if len(s.State.Votes) > 0 {
		targets := slices.Sorted(maps.Keys(s.State.Votes))
		slices.SortStableFunc(targets, func(a, b string) int { return s.State.Votes[b] - s.State.Votes[a] })
		var counts []string
		for _, t := range targets {
			counts = append(counts, fmt.Sprintf("%s %d", Line(t), s.State.Votes[t]))
		}
		votes = "fresh votes: " + strings.Join(counts, ", ")
	}
	lines := []string{"  " + faint.on(votes+" · "+Cost(s.State.Cost), color)}
	if s.State.Parked != nil {
		lines = append(lines, "  "+yellow.on("waiting for "+Line(*s.State.Parked), color))
	}
	if s.State.Winner != "" {
		lines = append(lines, "  "+bold.on("decided for "+Line(s.State.Winner), color))
	}
	return lines
}
