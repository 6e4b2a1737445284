package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/text"
	"conclave/workflows/drive"
)

// show updates the details in the Web UI and the memo. The memo can be read without a worker.
func (s *session) show() {
	workflow.SetCurrentDetails(s.ctx, scoreboard(s.state(), s.prepared))
	s.setMemo(s.ctx, s.memoStatus())
}

// setMemo sets the memo, which contains the doorbell. It omits the session ID until the directory
// is claimed, because the ID may belong to another session.
func (s *session) setMemo(ctx workflow.Context, status string) {
	fields := map[string]any{drive.MemoStatus: status, drive.MemoQuery: s.in.Query, drive.MemoRound: 0, memoWinner: ""}
	if s.in.Continues != "" {
		fields[drive.MemoContinues] = s.in.Continues
	}
	if s.in.Resume { // the query of a reopened session is not loaded, and the starter may have set the memo
		delete(fields, drive.MemoQuery)
	}
	if s.begun {
		view := s.core.View()
		fields[drive.MemoRound], fields[memoWinner] = view.Round, s.core.Decision().WinnerLabel
		fields[MemoSession], fields[drive.MemoOffline] = s.id, s.prepared.Offline
		// These are always set, because the previous run may have left values.
		fields[drive.MemoPaused], fields[drive.MemoParked] = view.Paused, ""
		if view.Parked != nil {
			fields[drive.MemoParked] = *view.Parked
		}
	}
	s.memo.Set(ctx, fields)
}

// memoStatus returns the status as one word, for lists of sessions.
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

func (s *session) timeline() ([]coordination.Entry, error) {
	if s.core == nil {
		return []coordination.Entry{}, nil
	}
	return s.core.Timeline(), nil
}

func (s *session) state() acts.State {
	now := acts.State{SessionID: s.id, Query: s.in.Query, Continues: s.in.Continues, Status: s.status(), Final: s.final, Error: s.failure(), Preparations: s.prepared.Drafted, Ignored: s.inbox.Ignored()}
	if s.core == nil {
		now.View = coordination.View{Phase: coordination.PhasePreparing, Agents: []coordination.AgentView{}, Votes: map[string]int{}}
		if now.Status == drive.Cancelled {
			now.Phase = coordination.PhaseDone
		}
		return now
	}
	now.View = s.core.View()
	if d := s.decision; d != nil {
		now.DecidedBy, now.Support, now.Tie, now.Cut = d.DecidedBy(), d.Support, d.Tied, d.Cut
	}
	for _, a := range now.Agents {
		switch {
		case a.Doing == nil:
		case a.Doing.Kind == coordination.RunsChecks:
			a.Doing.Since = s.checkedSince(a.ID)
		case a.Running: // its step has reported the time
		default:
			a.Doing.Since, a.Doing.Until = s.clock.waitFrom, s.clock.waitUntil
		}
	}
	return now
}

// glance returns the state without the query, which may be large, for results of updates and inputs
// of activities, because both remain in the history.
func (s *session) glance() acts.State {
	now := s.state()
	now.Query = ""
	return now
}

func (s *session) status() string {
	switch {
	case s.decision != nil:
		return string(s.decision.Status)
	case s.ctx.Err() != nil:
		return drive.Cancelled
	default:
		return drive.Running
	}
}

// scoreboard formats the session for the Web UI.
func scoreboard(s acts.State, p acts.Prepared) string {
	var b drive.Board
	detail := fmt.Sprintf("round %d", s.Round)
	if s.Attempt > 1 {
		detail += fmt.Sprintf(" · attempt %d", s.Attempt)
	}
	b.Headline(headline(s), detail, s.Cost)
	b.WriteString(freshVotes(s))
	switch {
	case s.Messages == 1:
		b.WriteString(" · 1 human message")
	case s.Messages > 1:
		b.Print(" · %d human messages", s.Messages)
	}
	b.WriteString("\n\n")
	id := text.ShellQuote(s.SessionID)
	commands := fmt.Sprintf("`conclave finish %s` · `conclave cancel %[1]s`\n\n", id)
	if s.Status == drive.Running && s.Parked != nil {
		b.Print("**Parked:** %s\n\n`conclave retry %s` · %s", text.Markdown(*s.Parked), id, commands)
	}
	if s.Status == drive.Running && s.Paused {
		b.Print("**Paused:** nothing runs, and the session's time stands still\n\n`conclave resume %s` · %s", id, commands)
	}
	b.Ignored(s.Ignored)
	if p.Offline {
		b.WriteString("Offline: the built-in deterministic model plays the team.\n\n")
	}
	if s.Error != nil {
		b.Print("**%s:** %s\n\n", text.Markdown(s.Error.Type), text.Markdown(s.Error.Message))
	}
	if s.Continues != "" {
		b.Print("Continues session `%s`.\n\n", s.Continues)
	}
	b.Quote(s.Query)
	printAgents(&b, s)
	b.Files(p.URL)
	return b.String()
}

// printAgents prints a table of the agents, then their failures and stops.
func printAgents(b *drive.Board, s acts.State) {
	if len(s.Agents) == 0 {
		return
	}
	// The columns are short enough for half a browser window.
	b.WriteString("| agent | state | answer | vote | step | tokens |\n|---|---|---|---|---|---|\n")
	for _, a := range s.Agents {
		b.Print("| %s (agent%d) | %s | %s | %s | %d | %d |\n", a.ID, a.Number,
			agentState(s.Phase, a), cmp.Or(a.LatestLabel, "–"), voteCell(a), a.Step, a.Cost.InputTokens+a.Cost.OutputTokens)
	}
	b.WriteString("\n")
	if slices.ContainsFunc(s.Agents, func(a coordination.AgentView) bool { return a.Running }) {
		b.Print("`conclave status %s` and the pending activities show what the running steps do.\n\n", text.ShellQuote(s.SessionID))
	}
	for _, a := range s.Agents {
		if a.Stop != nil {
			status := string(a.Stop.Status)
			if a.Stop.Status == coordination.Blocked { // a person can help
				status = "**" + status + "**"
			}
			b.Print("- %s is %s: %s\n", a.ID, status, text.Markdown(a.Stop.Summary))
		}
	}
	printFailures(b, s.Agents)
}

// printFailures prints each error once, with the agents that it concerns.
func printFailures(b *drive.Board, agents []coordination.AgentView) {
	for i, a := range agents {
		same := func(o coordination.AgentView) bool { return a.Error != nil && o.Error != nil && *o.Error == *a.Error }
		if a.Error == nil || slices.ContainsFunc(agents[:i], same) {
			continue
		}
		var ids []string
		for _, o := range agents[i:] {
			if same(o) {
				ids = append(ids, o.ID)
			}
		}
		b.Print("- %s failed: %s: %s\n", strings.Join(ids, ", "), a.Error.Type, text.Markdown(a.Error.Message))
	}
}

// freshVotes formats the tally in the configured order of agents.
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
	switch {
	case s.Winner != "":
		return s.Status + ": " + s.Winner
	case s.Status != drive.Running:
		return s.Status
	}
	switch s.Phase {
	case coordination.PhaseInitialAnswers:
		return "first answers"
	case coordination.PhaseCoordinating:
		return "answering and voting"
	case coordination.PhaseWaitingForTools:
		return "waiting for the caller's tools"
	case coordination.PhasePresenting:
		return "preparing the final answer"
	default:
		return string(s.Phase)
	}
}

func agentState(phase coordination.Phase, a coordination.AgentView) string {
	switch {
	case a.Running && phase == coordination.PhasePresenting:
		return "at the final answer"
	case a.Running && a.Doing != nil && a.Doing.Kind == coordination.ModelAway:
		return "away: its model does not reply"
	case a.Running && a.Purpose == coordination.Evaluation:
		return "being evaluated"
	case a.Running:
		return "at work"
	case a.Doing != nil && a.Doing.Kind == coordination.RunsChecks:
		return "its answer is checked"
	case a.Doing != nil:
		return "waiting for its model's server until " + a.Doing.Until.UTC().Format("15:04:05 UTC")
	}
	return strings.ReplaceAll(string(a.Status), "_", " ")
}

// voteCell formats the vote or the stop of an agent.
func voteCell(a coordination.AgentView) string {
	cell, stale := "–", false
	switch {
	case a.Stop != nil:
		cell, stale = string(a.Stop.Status), a.Stop.Stale
	case a.Vote != nil:
		cell, stale = a.Vote.TargetLabel, a.Vote.Stale
	}
	if stale {
		return "~~" + cell + "~~ stale"
	}
	return cell
}
