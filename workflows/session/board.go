package session

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// show makes the session readable without JSON: in the Web UI, and in the memo, which
// needs no worker.
func (s *session) show() {
	workflow.SetCurrentDetails(s.ctx, scoreboard(s.stateNow(), s.prepared))
	s.setMemo(s.ctx, s.memoStatus())
}

// setMemo sets the memo, and rings the doorbell in it. The session ID is set once the
// directory is claimed: until then it may be another session's.
func (s *session) setMemo(ctx workflow.Context, status string) {
	fields := []drive.MemoField{
		{Key: drive.MemoStatus, Value: status},
		{Key: drive.MemoQuery, Value: text.Truncate(s.in.Query, drive.MaxMemoText)},
	}
	if !s.begun {
		s.memo.Set(ctx, append(fields, drive.MemoField{Key: memoRound, Value: 0}, drive.MemoField{Key: memoWinner, Value: ""})...)
		return
	}
	view, parked := s.core.View(), ""
	if view.Parked != nil {
		parked = text.Truncate(*view.Parked, drive.MaxMemoParked)
	}
	fields = append(fields, []drive.MemoField{
		{Key: memoRound, Value: view.Round},
		{Key: memoWinner, Value: s.core.Decision().WinnerLabel},
		{Key: MemoSession, Value: s.id},
		{Key: drive.MemoOffline, Value: s.prepared.Offline},
		{Key: drive.MemoPaused, Value: view.Paused}, // set at once: a run before may have left true
		{Key: drive.MemoParked, Value: parked},
	}...)
	s.memo.Set(ctx, fields...)
}

// memoStatus is the status in one word, for lists of sessions.
func (s *session) memoStatus() string {
	status := s.status()
	if status != drive.Running || !s.begun {
		return status
	}
	switch view := s.core.View(); {
	case view.Paused:
		return drive.Paused
	case view.Parked != nil:
		return drive.Parked
	}
	return drive.Running
}

// state answers StateQuery.
func (s *session) state() (acts.State, error) { return s.stateNow(), nil }

// timeline answers TimelineQuery.
func (s *session) timeline() ([]coordination.Entry, error) {
	if s.core == nil {
		return []coordination.Entry{}, nil
	}
	return s.core.Timeline(), nil
}

func (s *session) stateNow() acts.State {
	now := acts.State{SessionID: s.id, Query: s.in.Query, Status: s.status(), Final: s.final}
	if s.core == nil {
		now.View = coordination.View{Phase: coordination.PhasePreparing, Agents: []coordination.AgentView{}, Votes: map[string]int{}}
		return now
	}
	now.View = s.core.View()
	return now
}

// status returns the status of the session: running, or the end.
func (s *session) status() string {
	switch {
	case s.ctx.Err() != nil:
		return drive.Cancelled
	case s.decision != nil:
		return string(s.decision.Status)
	default:
		return drive.Running
	}
}

type board struct{ drive.Board }

// scoreboard formats the session for the Web UI.
func scoreboard(s acts.State, p acts.Prepared) string {
	var b board
	b.Print("**%s** · round %d%s · %s\n\n", headline(s), s.Round, restart(s), drive.Cost(s.Cost))
	b.Print("%s%s\n\n", freshVotes(s), messages(s))
	b.held(s)
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the team.\n\n")
	}
	b.Print("> %s\n\n", text.Markdown(text.Truncate(s.Query, drive.MaxBoardText)))
	b.agents(s)
	if p.URL != "" {
		b.Print("\nFiles: `%s`\n", strings.TrimSuffix(p.URL, "session.json"))
	}
	return b.String()
}

// held prints why the session is held, and the commands that release it.
func (b *board) held(s acts.State) {
	if s.Status != drive.Running {
		return
	}
	if s.Parked != nil {
		b.Print("**Parked:** %s\n\n", text.Markdown(*s.Parked))
		b.commands(s.SessionID, "retry")
	}
	if s.Paused {
		b.WriteString("**Paused:** nothing runs, and the session's time stands still\n\n")
		b.commands(s.SessionID, "resume")
	}
}

// commands prints the commands that release a held session.
func (b *board) commands(id, goOn string) {
	b.Print("`conclave %s %s` · `conclave finish %s` · `conclave cancel %s`\n\n", goOn, id, id, id)
}

// agents prints a table of the agents, and their failures and stops.
func (b *board) agents(s acts.State) {
	if len(s.Agents) == 0 {
		return
	}
	// Short columns fit half a browser window without wrapping.
	b.WriteString("| agent | state | answer | vote | step | tokens |\n|---|---|---|---|---|---|\n")
	for _, a := range s.Agents {
		b.Print("| %s (agent%d) | %s | %s | %s | %d | %d |\n",
			a.ID, a.Number, agentState(s.Phase, a), orDash(a.LatestLabel), voteCell(a), a.Step, drive.Tokens(a.Cost))
	}
	b.WriteString("\n")
	for _, a := range s.Agents {
		if a.Error != nil {
			b.Print("- %s failed: %s: %s\n", a.ID, a.Error.Type, text.Markdown(a.Error.Message))
		}
		if a.Stop != nil {
			b.Print("- %s is %s: %s\n", a.ID, stopWord(a.Stop.Status), text.Markdown(a.Stop.Summary))
		}
	}
}

// stopWord emphasizes blocked, since a person can help.
func stopWord(status coordination.StopStatus) string {
	if status == coordination.Blocked {
		return "**blocked**"
	}
	return string(status)
}

// restart says which one it is of the team, if it is not the first.
func restart(s acts.State) string {
	if s.Attempt < 2 {
		return ""
	}
	return fmt.Sprintf(" · attempt %d", s.Attempt)
}

// messages prints the number of human messages.
func messages(s acts.State) string {
	switch s.Messages {
	case 0:
		return ""
	case 1:
		return " · 1 human message"
	}
	return fmt.Sprintf(" · %d human messages", s.Messages)
}

// freshVotes prints the tally in configured order.
func freshVotes(s acts.State) string {
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

func headline(s acts.State) string {
	if s.Winner != "" {
		return fmt.Sprintf("%s: %s", s.Status, s.Winner)
	}
	if s.Status != drive.Running {
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

// voteCell prints the agent's vote or stop.
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

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
