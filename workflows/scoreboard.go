package workflows

import (
	"fmt"
	"strings"
	"unicode"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	"conclave/engine/coordination"
	"conclave/engine/excerpt"
	"conclave/engine/llm"
)

// Cuts of a query where only its gist is wanted, in bytes.
const (
	gistInMemo    = 200
	gistInDetails = 2000
)

// show makes the Web UI, the CLI and describe readable without reading JSON.
func (s *session) show() {
	workflow.SetCurrentDetails(s.ctx, scoreboard(s.stateNow(), s.prepared))
	s.tell(s.ctx, s.status())
}

// tell makes the memo say the session's status without a worker. Each change is
// one event of the history, so nothing is written twice. The session ID is told
// once the directory is ours: until then it may be another session's.
func (s *session) tell(ctx workflow.Context, status string) {
	next := memo{status: status, known: s.core != nil}
	if s.core != nil {
		next.round, next.winner = s.core.Round, s.core.Decision().WinnerLabel
	}
	if s.memo == next {
		return
	}
	values := map[string]any{MemoStatus: next.status, MemoRound: next.round, MemoWinner: next.winner}
	if s.memo == (memo{}) {
		values[MemoQuery] = excerpt.Marked(s.in.Query, gistInMemo)
	}
	if next.known && !s.memo.known {
		values[MemoSession], values[MemoOffline] = s.id, s.prepared.Offline
	}
	s.memo = next
	if err := workflow.UpsertMemo(ctx, values); err != nil {
		workflow.GetLogger(ctx).Error("the memo could not be set", "error", err)
	}
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
	now := State{SessionID: s.id, Query: s.in.Query, Status: s.status()}
	if s.core == nil {
		now.View = coordination.View{Phase: coordination.PhasePreparing, Agents: []coordination.AgentView{}, Votes: map[string]int{}}
		return now
	}
	now.View = s.core.View()
	return now
}

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

// memo is what the memo was last set to.
type memo struct {
	status, winner string
	round          int
	known          bool // the session ID is told
}

// scoreboard is the session as Markdown.
func scoreboard(s activities.SessionState, p activities.Prepared) string {
	var b board
	b.print("**%s** · round %d · %s\n\n", headline(s), s.Round, cost(s.Cost))
	b.print("%s\n\n", freshVotes(s))
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the team.\n\n")
	}
	b.print("> %s\n\n", plain(excerpt.Marked(s.Query, gistInDetails)))
	if len(s.Agents) > 0 {
		// Half a browser window wide: short columns, or every cell is wrapped.
		b.WriteString("| agent | state | answer | vote | step | tokens |\n|---|---|---|---|---|---|\n")
		for _, a := range s.Agents {
			b.print("| %s (agent%d) | %s | %s | %s | %d | %d |\n",
				a.ID, a.Number, agentState(a), orDash(a.LatestLabel), voteCell(a.Vote), a.Step, tokens(a.Cost))
		}
		b.WriteString("\n")
		for _, a := range s.Agents {
			if a.Error != nil {
				b.print("- %s failed: %s: %s\n", a.ID, a.Error.Type, plain(a.Error.Message))
			}
		}
	}
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
	default:
		return string(s.Phase)
	}
}

func agentState(a coordination.AgentView) string {
	if a.Running {
		return "at work"
	}
	return strings.ReplaceAll(string(a.Status), "_", " ")
}

func voteCell(v *coordination.VoteView) string {
	switch {
	case v == nil:
		return "–"
	case v.Stale:
		return "~~" + v.TargetLabel + "~~ stale"
	default:
		return v.TargetLabel
	}
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
