package progress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// paint is a colour. Marks and words express the same meaning without it.
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

// Table returns a snapshot as lines without colours or limits.
func Table(s Snapshot) []string {
	const unlimited = 1 << 16
	return frame(s, unlimited, unlimited, false)
}

// frame formats a session in at most height-1 lines, which leaves a free line below. The screen
// truncates the lines.
func frame(s Snapshot, width, height int, color bool) []string {
	lines := []string{header(s, width, color)}
	if query := Line(s.State.Query); query != "" {
		lines = append(lines, faint.on("  "+query, color))
	}
	foot := footer(s, color)
	rows := agentRows(s, width, color)
	room := height - 1 - len(lines) - len(foot)
	switch all, waits := s.withActivities(rows, width, color), s.waiting().withActivities(rows, width, color); {
	case len(all) <= room:
		rows = all
	case len(waits) <= room:
		rows = waits
	case s.summary() != "":
		foot = append(foot, "  "+yellow.on(s.summary(), color))
		room--
	}
	if room = max(1, room); len(rows) > room {
		hidden := len(rows) - room + 1
		rows = append(rows[:room-1:room-1], faint.on(fmt.Sprintf("  … and %d more", hidden), color))
	}
	return append(append(lines, rows...), foot...)
}

// slim is the width, in columns, below which the session's ID is truncated.
const slim = 50

func header(s Snapshot, width int, color bool) string {
	id, rest := Line(s.State.SessionID), headerWords(s, color)
	if width < slim {
		const least = 5 // the end of the ID distinguishes sessions of one day
		room := max(least, width-1-ansi.StringWidth(" · "+rest))
		if over := ansi.StringWidth(id) - room; over > 0 {
			id = ansi.TruncateLeft(id, over+1, "…")
		}
	}
	return bold.on(id, color) + " · " + rest
}

// headerWords returns the part of the header after the ID.
func headerWords(s Snapshot, color bool) string {
	parts := []string{stageWords(s.State)}
	if s.State.Paused {
		parts = append(parts, yellow.on("paused", color))
	}
	if s.State.Parked != nil {
		parts = append(parts, yellow.on("parked", color))
	}
	if s.State.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", s.State.Attempt))
	}
	if s.State.Round > 0 {
		parts = append(parts, fmt.Sprintf("round %d", s.State.Round))
	}
	if s.Revote {
		parts = append(parts, "revote")
	}
	parts = append(parts, Clock(s.Elapsed))
	if s.Offline {
		parts = append(parts, yellow.on("offline models", color))
	}
	return strings.Join(parts, " · ")
}

// stageWords describes the phase of a session, or how it ended.
func stageWords(s acts.State) string {
	if s.Status != "" && s.Status != drive.Running {
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

func footer(s Snapshot, color bool) []string {
	cost := Cost(s.State.Cost)
	if s.State.Status != "" && s.State.Status != drive.Running {
		cost = FinalCost(s.State.Cost)
	}
	parts := []string{tally(s.State), cost}
	if n := s.State.Messages; n > 0 {
		parts = append(parts, Plural(n, "human message"))
	}
	lines := []string{"  " + faint.on(strings.Join(parts, " · "), color)}
	if words := preparationWords(s.State.Preparations); words != "" {
		lines = append(lines, "  "+faint.on(words, color))
	}
	if s.State.Ignored != "" && s.State.Status == drive.Running {
		lines = append(lines, "  "+yellow.on("ignored the signal "+Line(s.State.Ignored), color))
	}
	if s.State.Winner != "" {
		decided := "decided for "
		if s.State.Status == string(coordination.Undecided) {
			decided = "undecided, the best answer is that of "
		}
		lines = append(lines, "  "+bold.on(decided+Line(s.State.Winner), color))
	}
	return append(lines, holdLines(s.Holds, color)...)
}

// tally returns the votes or, for a decomposition, the number of stops.
func tally(s acts.State) string {
	if len(s.Votes) > 0 {
		targets := slices.Sorted(maps.Keys(s.Votes))
		slices.SortStableFunc(targets, func(a, b string) int { return s.Votes[b] - s.Votes[a] })
		var counts []string
		for _, t := range targets {
			counts = append(counts, fmt.Sprintf("%s %d", Line(t), s.Votes[t]))
		}
		return "fresh votes: " + strings.Join(counts, ", ")
	}
	stopped, fresh := 0, 0
	for _, a := range s.Agents {
		if a.Stop != nil {
			stopped++
			if !a.Stop.Stale {
				fresh++
			}
		}
	}
	if stopped == 0 {
		return "no fresh votes"
	}
	return fmt.Sprintf("%d of %d stopped", fresh, len(s.Agents))
}

// Line returns s as a single line without control sequences.
func Line(s string) string { return text.OneLine(text.Terminal(s)) }

// Cost describes a usage: its tokens, and its price if known.
func Cost(u llm.Usage) string {
	tokens := Count(u.InputTokens+u.OutputTokens) + " tokens"
	switch {
	case u.ModelCalls == 0:
		return "no tokens yet"
	case u.TotalUSD == nil && u.KnownUSD > 0:
		return tokens + fmt.Sprintf(", at least $%.4f", u.KnownUSD)
	case u.TotalUSD == nil:
		return tokens + ", cost unknown"
	case *u.TotalUSD == 0:
		return tokens + ", no cost"
	default:
		return tokens + fmt.Sprintf(", $%.4f", *u.TotalUSD)
	}
}

// FinalCost is like Cost, for the usage of an ended run.
func FinalCost(u llm.Usage) string { return strings.TrimSuffix(Cost(u), " yet") }

// Plural returns a count with its noun, such as "2 votes".
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Count formats a number briefly, such as 1.5k.
func Count(n int64) string {
	switch {
	case n < 1_000:
		return fmt.Sprint(n)
	case n < 100_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1e3)
	default:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
}

// Clock formats a duration as m:ss or h:mm:ss.
func Clock(d time.Duration) string {
	s := int(max(d, 0) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
