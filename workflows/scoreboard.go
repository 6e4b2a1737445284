package workflows

import (
	"fmt"
	"strings"

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
	workflow.SetCurrentDetails(s.ctx, scoreboard(s.stateNow(), s.prepared.URL))
	s.memo.set(s.ctx, s.id, s.in.Query, s.status(), s.core)
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

// memo is what the memo was last set to: each change is one event of the
// history, so nothing is written twice.
type memo struct {
	status, winner string
	round          int
}

// set makes the memo tell the session's status without a worker.
func (m *memo) set(ctx workflow.Context, id, query, status string, core *coordination.State) {
	next := memo{status: status}
	if core != nil {
		next.round, next.winner = core.Round, core.Decision().WinnerLabel
	}
	if *m == next {
		return
	}
	values := map[string]any{MemoStatus: status, MemoRound: next.round, MemoWinner: next.winner}
	if *m == (memo{}) {
		values[MemoSession], values[MemoQuery] = id, excerpt.Marked(query, gistInMemo)
	}
	*m = next
	if err := workflow.UpsertMemo(ctx, values); err != nil {
		workflow.GetLogger(ctx).Error("the memo could not be set", "error", err)
	}
}

// scoreboard is the session as Markdown.
func scoreboard(s activities.SessionState, url string) string {
	var b board
	b.print("**%s** · round %d · %s\n\n", headline(s), s.Round, cost(s.Cost))
	b.print("> %s\n\n", oneLine(excerpt.Marked(s.Query, gistInDetails)))
	if len(s.Agents) > 0 {
		b.WriteString("| agent | known as | state | newest answer | vote | last step | cost |\n|---|---|---|---|---|---|---|\n")
		for _, a := range s.Agents {
			b.print("| %s | agent%d | %s | %s | %s | %d | %s |\n",
				a.ID, a.Number, agentState(a), orDash(a.LatestLabel), voteCell(a.Vote), a.Step, cost(a.Cost))
		}
		b.WriteString("\n")
		for _, a := range s.Agents {
			if a.Error != nil {
				b.print("- %s failed: %s: %s\n", a.ID, a.Error.Type, oneLine(a.Error.Message))
			}
		}
	}
	if url != "" {
		b.print("\nFiles: `%s`\n", strings.TrimSuffix(url, "session.json"))
	}
	return b.String()
}

// board is text in the making. fmt.Fprintf would do, but what it may do to a
// writer is not deterministic, and workflowcheck knows that.
type board struct{ strings.Builder }

func (b *board) print(format string, args ...any) {
	b.WriteString(fmt.Sprintf(format, args...)) //nolint:staticcheck // QF1012 wants the Fprintf that workflowcheck refuses
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
	text := fmt.Sprintf("%d tokens, %d calls", u.InputTokens+u.OutputTokens, u.ModelCalls)
	if u.TotalUSD != nil {
		text += fmt.Sprintf(", $%.4f", *u.TotalUSD)
	}
	return text
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
