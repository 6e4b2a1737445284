package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"conclave/activities"
	acts "conclave/activities/session"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	team "conclave/engine/session"
	"conclave/engine/text"
	"conclave/workflows"
)

// showProgress updates the details in the Web UI and the memo. The memo can be read without a worker.
func (s *session) showProgress() {
	workflow.SetCurrentDetails(s.ctx, boardMarkdown(s.currentState(), s.prepared))
	s.setMemo(s.ctx, s.memoStatus())
	if waits := s.core != nil && len(s.core.OpenQuestions()) > 0; waits != s.waits && s.begun && s.decision == nil {
		s.waits = waits
		s.searchIndex().Change(s.ctx, map[bool]string{true: workflows.Waiting, false: workflows.Running}[waits])
	}
}

// setMemo sets the memo, which contains the doorbell. It omits the session ID until the directory
// is claimed, because the ID may belong to another session.
func (s *session) setMemo(ctx workflow.Context, status string) {
	fields := map[string]any{workflows.MemoStatus: status, workflows.MemoQuery: s.in.Query, workflows.MemoRound: 0, workflows.MemoWinner: ""}
	if s.in.Continues != "" {
		fields[workflows.MemoContinues] = s.in.Continues
	}
	if s.in.Resume { // the query of a reopened session is not loaded, and the starter may have set the memo
		delete(fields, workflows.MemoQuery)
	}
	if s.begun {
		view := s.core.View()
		fields[workflows.MemoRound], fields[workflows.MemoWinner] = view.Round, s.core.Decision().WinnerLabel
		fields[MemoSession], fields[workflows.MemoOffline] = s.id, s.prepared.Offline
		if s.prepared.Recorded {
			fields[workflows.MemoRecorded] = true
		}
		// These are always set, because the previous run may have left values.
		fields[workflows.MemoPaused], fields[workflows.MemoParked] = view.Paused, ""
		if view.Parked != nil {
			fields[workflows.MemoParked] = *view.Parked
		}
		if open := s.currentState().Questions; len(open) > 0 || s.asked {
			s.asked = true
			fields[workflows.MemoQuestions] = workflows.ShortQuestions(open)
		}
	}
	s.memo.Set(ctx, fields)
}

// memoStatus returns the status as one word, for lists of sessions.
func (s *session) memoStatus() string {
	status := s.currentStatus()
	if status != workflows.Running || !s.begun {
		return status
	}
	switch view := s.core.View(); {
	case view.Paused:
		return workflows.Paused
	case view.Parked != nil:
		return workflows.Parked
	case len(view.Questions) > 0:
		return workflows.Waiting
	}
	return workflows.Running
}

func (s *session) readTimeline() ([]coordination.Entry, error) {
	if s.core == nil {
		return []coordination.Entry{}, nil
	}
	return s.core.Timeline(), nil
}

func (s *session) currentState() acts.State {
	now := acts.State{SessionID: s.id, Query: s.in.Query, Continues: s.in.Continues, Status: s.currentStatus(), Final: s.final, Error: s.failureReason(), Preparations: s.prepared.Drafted, Ignored: s.inbox.Ignored(), NoShell: s.prepared.NoShell}
	if s.core == nil {
		now.View = coordination.View{Phase: coordination.PhasePreparing, Agents: []coordination.AgentView{}, Votes: map[string]int{}}
		if now.Status == workflows.Cancelled {
			now.Phase = coordination.PhaseDone
		}
		return now
	}
	now.View = s.core.View()
	for i := range now.Questions {
		now.Questions[i].ID, now.Questions[i].Kind = s.id, workflows.KindSession
	}
	if d := s.decision; d != nil {
		now.DecidedBy, now.Support, now.Tie, now.Cut = d.DecidedBy(), d.Support, d.Tied, d.Cut
	}
	for _, a := range now.Agents {
		switch {
		case a.Doing == nil:
		case a.Doing.Kind == coordination.AsksPerson: // the core has stamped it
		case a.Doing.Kind == coordination.RunsChecks:
			a.Doing.Since = s.checkedSince(a.ID)
		case a.Running: // its step has reported the time
		default:
			a.Doing.Since, a.Doing.Until = s.clock.waitFrom, s.clock.waitUntil
		}
	}
	return now
}

// smallState returns the state without the query, which may be large, for results of updates and inputs
// of activities, because both remain in the history.
func (s *session) smallState() acts.State {
	now := s.currentState()
	now.Query = ""
	return now
}

func (s *session) currentStatus() string {
	switch {
	case s.decision != nil:
		return string(s.decision.Status)
	case s.ctx.Err() != nil:
		return workflows.Cancelled
	default:
		return workflows.Running
	}
}

func boardMarkdown(s acts.State, p acts.Prepared) string {
	var b workflows.Board
	detail := fmt.Sprintf("round %d", s.Round)
	if s.Attempt > 1 {
		detail += fmt.Sprintf(" · attempt %d", s.Attempt)
	}
	b.Headline(headlineOf(s), detail, s.Cost)
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
	if s.Status == workflows.Running && s.Parked != nil {
		b.Print("**Parked:** %s\n\n`conclave retry %s` · %s", text.Markdown(*s.Parked), id, commands)
	}
	if s.Status == workflows.Running && s.Paused {
		b.Print("**Paused:** nothing runs, and the session's time stands still\n\n`conclave resume %s` · %s", id, commands)
	}
	for _, q := range s.Questions {
		b.Question(id, q)
	}
	b.Ignored(s.Ignored)
	switch {
	case p.Recorded:
		b.WriteString("Recorded: the answers are recorded ones; no language model is asked.\n\n")
	case p.Offline:
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

func printAgents(b *workflows.Board, s acts.State) {
	if len(s.Agents) == 0 {
		return
	}
	// The columns are short enough for half a browser window.
	b.WriteString("| agent | state | answer | vote | step | tokens |\n|---|---|---|---|---|---|\n")
	for _, a := range s.Agents {
		b.Print("| %s (agent%d) | %s | %s | %s | %d | %d |\n", a.ID, a.Number,
			cmp.Or(s.CutOff(a.ID), agentState(s.Phase, a)), cmp.Or(a.LatestLabel, "–"), voteCell(a), a.Step, a.Cost.InputTokens+a.Cost.OutputTokens)
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

func printFailures(b *workflows.Board, agents []coordination.AgentView) {
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

func headlineOf(s acts.State) string {
	switch {
	case s.Winner != "":
		return s.Status + ": " + s.Winner
	case s.Status != workflows.Running:
		return s.Status
	}
	switch s.Phase {
	case coordination.PhaseInitialAnswers:
		return "first answers"
	case coordination.PhaseCoordinating:
		return "answering and voting"
	case coordination.PhaseWaitingForTools:
		return "waiting for the caller's tools"
	case coordination.PhaseWaitingForPerson:
		return "waiting for a person"
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
	case a.Doing != nil && a.Doing.Kind == coordination.AsksPerson:
		return "waits for a person"
	case a.Doing != nil && a.Doing.Kind == coordination.RunsChecks:
		return "its answer is checked"
	case a.Doing != nil:
		return "waiting for its model's server until " + a.Doing.Until.UTC().Format("15:04:05 UTC")
	}
	return strings.ReplaceAll(string(a.Status), "_", " ")
}

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

// Type is the workflow type of a session.
const Type = "Session"

// MemoSession is a memo key of a session, in addition to those of package workflows.
const MemoSession = "session_id"

// Input starts a session. With Resume alone it continues an ended session. Unknown keys are
// refused, because a misspelt key could cause costs.
type Input struct {
	Query     string `json:"query"`
	SessionID string `json:"session_id,omitempty"` // default: the workflow ID

	// Team is the name of a team on the worker; Config is a team in JSON, which can name the
	// worker's providers but not define any. If both are empty, the team is "default".
	Team   string          `json:"team,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`

	EvalCriteria json.RawMessage `json:"eval_criteria,omitempty"`

	artifact.Material
	// History lists earlier turns, oldest first. Alternatively, Continues is the ID of a session
	// with a decision, whose turns are used.
	History   []artifact.Turn `json:"history,omitempty"`
	Continues string          `json:"continues,omitempty"`

	// Conversation is the hash of the stored texts of a long question, which take the place of Query, of
	// which it is the beginning, History, Instructions and ClientTools.
	Conversation string `json:"conversation,omitempty"`

	// Instructions apply to every answer; they are the system messages of a caller. Depth is 1 if
	// an agent of another team asked this team, 2 if that team was itself asked by an agent, and so
	// on.
	Instructions string `json:"instructions,omitempty"`
	Depth        int    `json:"depth,omitempty"`

	// AnswerSchema is a JSON Schema that the answers fit, in place of that of the team.
	AnswerSchema json.RawMessage `json:"answer_schema,omitempty"`

	// ClientTools are tools that the caller runs, as in requests of OpenAI's API. They are offered
	// to all agents or, if ClientToolsFor is "presenter", only to the agent that presents the final
	// answer.
	ClientTools    json.RawMessage `json:"client_tools,omitempty"`
	ClientToolsFor string          `json:"client_tools_for,omitempty"`

	// Checks is a reference to the user's stored directory of checks, in the form sha256:<hex>. It
	// requires a team whose ballot runs checks.
	Checks string `json:"checks,omitempty"`

	// Limits reduce the limits of the team.
	Limits artifact.Limits `json:"limits,omitzero"`

	// Resume continues the session with this workflow ID that failed, is undecided, or was
	// cancelled, terminated or timed out. Agent restricts the retry to the failed step of one agent.
	// Text is a message with which the session goes on; Agent is then its recipient.
	Resume bool   `json:"resume,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Text   string `json:"text,omitempty"`

	// Continued passes a session on to the next execution; validate refuses it from clients.
	Continued *acts.Saved `json:"continued,omitempty"`

	faults workflows.Faults
}

// UnmarshalJSON never fails. validate reports faults.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	in.faults = workflows.Decode(data, (*plain)(in))
	return nil
}

// validate returns an error for an input that cannot start a session with the given ID. continued
// is true if the previous run started this one.
func (in Input) validate(id string, continued bool) error {
	switch {
	case in.Continued != nil && !continued:
		return workflows.Invalid("continued is reserved for the workflow: leave it out")
	case in.Resume && !continued:
		if in.Query != "" || in.Team != "" || activities.Given(in.Config) || activities.Given(in.EvalCriteria) || in.Checks != "" || len(in.History) > 0 || in.Conversation != "" || in.Continues != "" || in.Limits != (artifact.Limits{}) || in.Given() || !in.callerInput().IsZero() {
			return workflows.Invalid("resume goes on with the session as it was started: leave everything but session_id, agent and text out")
		}
		if in.SessionID == "" { // the workflow's ID need not be that of a session
			return nil
		}
	case in.Agent != "":
		return workflows.Invalid("agent limits the retry of resume: leave it out")
	case in.Text != "":
		return workflows.Invalid("text is a message to a session that resume goes on with: leave it out")
	case strings.TrimSpace(in.Query) == "":
		return workflows.Invalid(`the input has no query: give {"query":"…"}`)
	case len(in.History) > 0 && in.Continues != "":
		return workflows.Invalid("continues stands for the history of a session: leave history out")
	case in.Limits.Seconds < 0 || in.Limits.CostUSD < 0:
		return workflows.Invalid("limits are seconds and cost_usd above 0: give such amounts, or leave them out")
	case len(in.Query) > workflows.MaxInput:
		return workflows.Invalid("the query has %d bytes, at most %d are accepted: give large material as a base or a context: `conclave upload DIR` stores one", len(in.Query), workflows.MaxInput)
	case len(in.Config) > workflows.MaxInput:
		return workflows.Invalid("the config has %d bytes, at most %d are accepted", len(in.Config), workflows.MaxInput)
	case len(in.EvalCriteria) > workflows.MaxInput:
		return workflows.Invalid("the eval_criteria have %d bytes, at most %d are accepted", len(in.EvalCriteria), workflows.MaxInput)
	}
	err := team.CheckTurns(in.Query, in.History)
	if err == nil {
		err = in.callerInput().Check(workflows.MaxInput)
	}
	if err == nil && in.Continues != "" {
		err = artifact.CheckSessionID(in.Continues)
	}
	if err == nil {
		err = artifact.CheckSessionID(id)
	}
	if err != nil {
		return workflows.Invalid("%s", err.Error())
	}
	return nil
}

func (in Input) callerInput() artifact.Caller {
	return artifact.Caller{
		Instructions: in.Instructions, Depth: in.Depth, AnswerSchema: in.AnswerSchema, ClientTools: in.ClientTools, ClientToolsFor: in.ClientToolsFor,
	}
}
