package cli

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
	"conclave/workflows"
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

// SnapshotTable returns a snapshot as lines without colours or limits.
func SnapshotTable(s Snapshot) []string {
	const unlimited = 1 << 16
	return formatFrame(s, unlimited, unlimited, false)
}

// formatFrame formats a session in at most height-1 lines, which leaves a free line below. The
// screen truncates the lines.
func formatFrame(s Snapshot, width, height int, color bool) []string {
	lines := []string{headerLine(s, width, color)}
	if query := Line(s.State.Query); query != "" {
		lines = append(lines, faint.on("  "+query, color))
	}
	foot := footerLines(s, color)
	rows := agentRows(s, width, color)
	said := min(len(s.Said), max(leastSaid, len(rows)*2))
	room := height - 1 - len(lines) - len(foot) - min(said, leastSaid)
	switch all, waits := s.withActivities(rows, width, color), s.onlyWaits().withActivities(rows, width, color); {
	case len(all) <= room:
		rows = all
	case len(waits) <= room:
		rows = waits
	case s.waitsSummary() != "":
		foot = append([]string{"  " + yellow.on(s.waitsSummary(), color)}, foot...)
		room--
	}
	said = min(said, leastSaid+max(0, room-len(rows)))
	for _, words := range slices.Backward(s.Said[len(s.Said)-said:]) {
		foot = append([]string{"  " + Line(words)}, foot...)
	}
	if room = max(1, room); len(rows) > room {
		hidden := len(rows) - room + 1
		rows = append(rows[:room-1:room-1], faint.on(fmt.Sprintf("  … and %d more", hidden), color))
	}
	return append(append(lines, rows...), foot...)
}

// leastSaid is the least number of lines for what agents said, for which rows of agents are left out.
const leastSaid = 3

// slim is the width, in columns, below which the session's ID is truncated.
const slim = 50

func headerLine(s Snapshot, width int, color bool) string {
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
	if s.Offline != "" {
		parts = append(parts, yellow.on(s.Offline, color))
	}
	return strings.Join(parts, " · ")
}

func stageWords(s acts.State) string {
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

func footerLines(s Snapshot, color bool) []string {
	cost := Cost(s.State.Cost)
	if s.State.Status != "" && s.State.Status != workflows.Running {
		cost = FinalCost(s.State.Cost)
	}
	parts := []string{voteTally(s.State, color), faint.on(cost, color)}
	if n := s.State.Messages; n > 0 {
		parts = append(parts, faint.on(Plural(n, "human message"), color))
	}
	var lines []string
	if words := preparationWords(s.State.Preparations); words != "" {
		lines = append(lines, "  "+faint.on(words, color))
	}
	if s.State.Ignored != "" && s.State.Status == workflows.Running {
		lines = append(lines, "  "+yellow.on("ignored the signal "+Line(s.State.Ignored), color))
	}
	if s.State.Winner != "" {
		decided := "decided for "
		if s.State.Status == string(coordination.Undecided) {
			decided = "undecided, the best answer is that of "
		}
		lines = append(lines, "  "+bold.on(decided+Line(s.State.Winner), color))
	}
	lines = append(lines, holdLines(s.Holds, color)...)
	return append(lines, "  "+strings.Join(parts, faint.on(" · ", color)))
}

// voteTally has a bar for each answer with fresh votes, the longest first. The votes of all agents
// would make bars of twelve columns.
func voteTally(s acts.State, color bool) string {
	const columns, most = 12, 2
	if len(s.Votes) > 0 {
		targets := slices.Sorted(maps.Keys(s.Votes))
		slices.SortStableFunc(targets, func(a, b string) int { return s.Votes[b] - s.Votes[a] })
		var bars []string
		for i, t := range targets {
			if i == most {
				bars = append(bars, fmt.Sprintf("%d more", len(targets)-most))
				break
			}
			bar := strings.Repeat("█", max(1, columns*s.Votes[t]/max(1, len(s.Agents))))
			bars = append(bars, fmt.Sprintf("%s %s %d", Line(t), green.on(bar, color), s.Votes[t]))
		}
		return "fresh votes: " + strings.Join(bars, ", ")
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
		return faint.on("no fresh votes", color)
	}
	return faint.on(fmt.Sprintf("%d of %d stopped", fresh, len(s.Agents)), color)
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

// agentRows returns the agents' rows, with the columns aligned by the widest ID. The last column is
// truncated.
func agentRows(s Snapshot, width int, color bool) []string {
	idWidth, wordWidth := 0, 0
	for _, a := range s.State.Agents {
		_, words, _ := agentWords(s.State, a)
		idWidth = max(idWidth, ansi.StringWidth(s.agentName(a, width, false)))
		if !hasFailed(a) { // a failed agent has no details
			wordWidth = max(wordWidth, ansi.StringWidth(words))
		}
	}
	rows := make([]string, 0, len(s.State.Agents))
	for _, a := range s.State.Agents {
		mark, words, p := agentWords(s.State, a)
		words = ansi.Truncate(words, max(wordWidth, width-idWidth-5), "…")
		name := s.agentName(a, width, color)
		name += strings.Repeat(" ", idWidth-ansi.StringWidth(name))
		row := fmt.Sprintf("  %s %s  %s", p.on(mark, color), name, p.on(words, color))
		if !hasFailed(a) {
			row += strings.Repeat(" ", max(0, wordWidth-ansi.StringWidth(words))) + "  " + faint.on(agentDetail(a, s.Received[a.ID]), color)
		}
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return rows
}

// agentName returns the ID of an agent with the name of its model, if there is room for it.
func (s Snapshot) agentName(a coordination.AgentView, width int, color bool) string {
	const longest = 20 // columns
	model := Line(s.Models[a.ID])
	if model == "" || width < slim {
		return a.ID
	}
	return a.ID + " " + faint.on(ansi.Truncate(model[strings.LastIndexByte(model, '/')+1:], longest, "…"), color)
}

func hasFailed(a coordination.AgentView) bool { return a.Error != nil && !a.Running && a.Doing == nil }

// agentWords returns the first case that applies: an agent that runs again still has the error or
// the vote of its previous step.
func agentWords(s acts.State, a coordination.AgentView) (mark, words string, p paint) {
	switch {
	case hasFailed(a):
		return "✗", "failed: " + failureWords(s, a), red
	case a.Error != nil && !a.Running:
		return "!", "waiting for its model's server", yellow
	case a.Running:
		return "●", workWords(a.Purpose, a.Step+1), cyan
	case s.CutOff(a.ID) != "":
		return "·", s.CutOff(a.ID), faint
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
	first := slices.IndexFunc(s.Agents, func(b coordination.AgentView) bool { return hasFailed(b) && *b.Error == *a.Error })
	if first >= 0 && s.Agents[first].ID != a.ID {
		return "the same error as " + s.Agents[first].ID
	}
	return Line(a.Error.Type + ": " + a.Error.Message)
}

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

// evaluationWords describes the evaluation of an answer. It names the answer unless that is
// the latest.
func evaluationWords(c coordination.Critique, latest string) string {
	sum := 0.0
	for _, s := range c.Scores {
		sum += s.Score
	}
	words := Line(string(c.Verdict))
	if c.Label != "" && c.Label != latest {
		words = Line(c.Label) + " evaluated: " + words
	}
	if n := len(c.Scores); n > 0 {
		words += fmt.Sprintf(", scored %.1f of 10", sum/float64(n))
	}
	if c.Ceiling != "" {
		words += ", " + strings.ReplaceAll(Line(string(c.Ceiling)), "_", " ")
	}
	return words
}

// preparationWords describes the preparations made by a model, or returns "" without any.
func preparationWords(made []acts.Drafted) string {
	var parts []string
	for _, d := range made {
		if d.Fallback != "" {
			parts = append(parts, fmt.Sprintf("built-in %s: %s", d.Preparation, Line(d.Fallback)))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d %s by a model", len(d.Items), d.Preparation))
	}
	return strings.Join(parts, " · ")
}
