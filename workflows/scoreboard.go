package workflows

import (
	"fmt"
	"strings"
	"unicode"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/llm"
	"conclave/engine/text"
)

// gistInDetails is how much of the query the scoreboard has, in bytes.
const gistInDetails = 2000

// show makes the Web UI, the CLI and describe readable without reading JSON.
func (s *session) show() {
	workflow.SetCurrentDetails(s.ctx, scoreboard(s.stateNow(), s.prepared))
	s.tell(s.ctx, s.memoStatus())
}

// state answers StateQuery.
func (s *session) state() (State, error) { return s.stateNow(), nil }

// timeline answers TimelineQuery.
func (s *session) timeline() ([]coordination.Entry, error) {
	if s.core == nil {
		return []coordination.Entry{}, nil
	}
	return s.core.Timeline(), nil
}

func (s *session) stateNow() State {
	now := State{SessionID: s.id, Query: s.in.Query, Status: s.status(), Final: s.final}
	if s.core == nil {
		now.View = coordination.View{Phase: coordination.PhasePreparing, Agents: []coordination.AgentView{}, Votes: map[string]int{}}
		return now
	}
	now.View = s.core.View()
	return now
}

// status is how the session stands: running, held or not, or how it ended.
func (s *session) status() string {
	switch {
	case s.ctx.Err() != nil:
		return cancelled
	case s.decision != nil:
		return string(s.decision.Status)
	default:
		return Running
	}
}

// scoreboard is the session as Markdown.
func scoreboard(s activities.SessionState, p activities.Prepared) string {
	var b board
	b.print("**%s** · round %d%s · %s\n\n", headline(s), s.Round, attempt(s), cost(s.Cost))
	b.print("%s%s\n\n", freshVotes(s), messages(s))
	b.held(s)
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the team.\n\n")
	}
	b.print("> %s\n\n", plain(text.Truncate(s.Query, gistInDetails)))
	b.agents(s)
	if p.URL != "" {
		b.print("\nFiles: `%s`\n", strings.TrimSuffix(p.URL, "session.json"))
	}
	return b.String()
}

// board is text in the making. fmt.Fprintf would do, but what it may do to a
// writer is not deterministic, and workflowcheck knows that.
type board struct{ strings.Builder }

func (b *board) print(format string, args ...any) {
	b.WriteString(fmt.Sprintf(format, args...)) //nolint:staticcheck // QF1012 wants the Fprintf that workflowcheck refuses
}

// held says what a held session waits for, and which commands release it.
func (b *board) held(s activities.SessionState) {
	if s.Status != Running {
		return
	}
	if s.Parked != nil {
		b.print("**Parked:** %s\n\n", plain(*s.Parked))
		b.commands(s.SessionID, "retry")
	}
	if s.Paused {
		b.WriteString("**Paused:** nothing runs, and the session's time stands still\n\n")
		b.commands(s.SessionID, "resume")
	}
}

// commands are what releases a held session, the one that lets it go on first.
func (b *board) commands(id, goOn string) {
	b.print("`conclave %s %s` · `conclave finish %s` · `conclave cancel %s`\n\n", goOn, id, id, id)
}

// agents is the table of who is where, and below it what went wrong.
func (b *board) agents(s activities.SessionState) {
	if len(s.Agents) == 0 {
		return
	}
	// Half a browser window wide: short columns, or every cell is wrapped.
	b.WriteString("| agent | state | answer | vote | step | tokens |\n|---|---|---|---|---|---|\n")
	for _, a := range s.Agents {
		b.print("| %s (agent%d) | %s | %s | %s | %d | %d |\n",
			a.ID, a.Number, agentState(s.Phase, a), orDash(a.LatestLabel), voteCell(a), a.Step, tokens(a.Cost))
	}
	b.WriteString("\n")
	for _, a := range s.Agents {
		if a.Error != nil {
			b.print("- %s failed: %s: %s\n", a.ID, a.Error.Type, plain(a.Error.Message))
		}
		if a.Stop != nil {
			b.print("- %s is %s: %s\n", a.ID, stopWord(a.Stop.Status), plain(a.Stop.Summary))
		}
	}
}

// stopWord makes of blocked what catches the eye: a person can help.
func stopWord(status coordination.StopStatus) string {
	if status == coordination.Blocked {
		return "**blocked**"
	}
	return string(status)
}

// attempt says which one it is of the team, if it is not the first.
func attempt(s activities.SessionState) string {
	if s.Attempt < 2 {
		return ""
	}
	return fmt.Sprintf(" · attempt %d", s.Attempt)
}

// messages counts what people have said.
func messages(s activities.SessionState) string {
	switch s.Messages {
	case 0:
		return ""
	case 1:
		return " · 1 human message"
	}
	return fmt.Sprintf(" · %d human messages", s.Messages)
}

// freshVotes is the tally, in configured order.
func freshVotes(s activities.SessionState) string {
	var counts []string
	for _, a := range s.Agents {
		if n := s.Votes[a.ID]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d for %s", n, a.ID))
		}
	}
	if len(counts) == 0 {
		return "No fresh votes"
	}
	return "Fresh votes: " + strings.Join(counts, ", ")
}

func headline(s activities.SessionState) string {
	if s.Winner != "" {
		return fmt.Sprintf("%s: %s", s.Status, s.Winner)
	}
	if s.Status != Running {
		return s.Status
	}
	switch s.Phase {
	case coordination.PhaseInitialAnswers:
		return "first answers"
	case coordination.PhaseCoordinating:
		return "answering and voting"
	case coordination.PhasePresenting:
		return "the final answer is made"
	default:
		return string(s.Phase)
	}
}

func agentState(phase coordination.Phase, a coordination.AgentView) string {
	switch {
	case a.Running && phase == coordination.PhasePresenting:
		return "at the final answer"
	case a.Running:
		return "at work"
	}
	return strings.ReplaceAll(string(a.Status), "_", " ")
}

// voteCell is the agent's vote or, where parts of the work are divided, its stop.
func voteCell(a coordination.AgentView) string {
	switch {
	case a.Stop != nil:
		return staleOr(string(a.Stop.Status), a.Stop.Stale)
	case a.Vote != nil:
		return staleOr(a.Vote.TargetLabel, a.Vote.Stale)
	}
	return "–"
}

func staleOr(text string, stale bool) string {
	if stale {
		return "~~" + text + "~~ stale"
	}
	return text
}

func cost(u llm.Usage) string {
	text := fmt.Sprintf("%d tokens, %d calls", tokens(u), u.ModelCalls)
	if u.TotalUSD != nil {
		text += fmt.Sprintf(", $%.4f", *u.TotalUSD)
	}
	return text
}

func tokens(u llm.Usage) int64 { return u.InputTokens + u.OutputTokens }

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// plain is text on one line that draws nothing: what people and models wrote
// makes no tables, links or terminal sequences here.
func plain(s string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(s), " ") {
		switch {
		case unicode.IsControl(r):
			continue
		case strings.ContainsRune("\\`*_<>|[]#~", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
