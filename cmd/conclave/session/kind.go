package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"conclave/activities/attempt"
	acts "conclave/activities/session"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// Kind describes sessions for the commands that take an ID.
func Kind() *runs.Kind {
	return &runs.Kind{
		Type: sessionflow.Type, Noun: "session", List: "list", MemoID: sessionflow.MemoSession, Failed: string(coordination.FailedAll),
		StateKeys: [2]string{"session_id", "query"},
		Statuses:  statuses(), Files: artifact.InBucket, Dirs: artifact.InBucket("*").Root(),
		Page: "/sessions/", Offer: live.Offer,
		OfflineNote: team.OfflineNote,
		Running: func(run runs.Run) any {
			r := running(run)
			r.Status = run.Shown()
			return r
		},
		Watch: watch,
		Result: func(ctx context.Context, conn *hall.Connection, run runs.Run) error {
			r, err := await(ctx, conn, run)
			return conclude(ctx, conn, run, r, running(run), err)
		},
		Await: func(ctx context.Context, conn *hall.Connection, run runs.Run) (any, string, error) {
			r, err := await(ctx, conn, run)
			return r, r.Status, err
		},
		Status: status,
		Reopen: reopen,
	}
}

// reopen returns the input of a run that continues an ended session. It refuses a session with a
// decision.
func reopen(ctx context.Context, conn *hall.Connection, run runs.Run, agent string) (any, error) {
	if run.Status != string(coordination.FailedAll) && run.Status != drive.Cancelled {
		return nil, hall.Exitf(hall.ExitUsage, "retry %s: it has decided (%s), and a decision stands; nothing was started, `%s` prints the answer",
			run, run.Status, conn.CommandLine("result", run.Workflow))
	}
	input := sessionflow.Input{Resume: true, Agent: agent}
	if run.ID != run.Workflow {
		input.SessionID = run.ID
	}
	if conn.Store == nil {
		return input, nil
	}
	process := attempt.Process{Store: conn.Store}
	if !conn.Cluster {
		process.Teams = team.Registry(conn.Target)
	}
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	saved := acts.Activities{Process: process}
	if err := saved.CanReopen(ctx, acts.ReopenInput{Session: run.ID, WorkflowID: run.Workflow, Agent: agent}); err != nil {
		return nil, runs.CannotReopen(conn, run, err)
	}
	return input, nil
}

// statuses returns the statuses of ended sessions.
func statuses() []string {
	var all []string
	for _, s := range []coordination.Status{
		coordination.Consensus, coordination.Plurality, coordination.Presented, coordination.Finished, coordination.Limit,
		coordination.Timeout, coordination.OverSpent, coordination.Undecided, coordination.FailedAll,
	} {
		all = append(all, string(s))
	}
	return all
}

// running returns the result of a session that has not ended.
func running(run runs.Run) sessionflow.Result {
	return sessionflow.Result{
		SessionID: run.ID, Status: drive.Running, Votes: map[string]int{}, Voters: []string{}, Failed: []coordination.FailedAgent{},
		DurationSeconds: run.Elapsed().Round(time.Millisecond).Seconds(),
	}
}

// await waits for the end of a session and returns its result. If Temporal ended the
// session, the result is completed from the last state.
func await(ctx context.Context, conn *hall.Connection, run runs.Run) (sessionflow.Result, error) {
	r, err := runs.Await(ctx, conn, run, endedResult)
	if err != nil || !runs.CutOff(r.Error) {
		return r, err
	}
	var state acts.State
	if runs.Query(ctx, conn, run.Workflow, drive.StateQuery, &state) != nil {
		state, _ = recorded(ctx, conn, run)
	}
	return completed(r, state), nil
}

// endedResult returns the result of a session that Temporal ended.
func endedResult(run runs.Run, status string, err *artifact.Error) sessionflow.Result {
	r := running(run)
	r.Status, r.Error = status, err
	return r
}

func conclude(ctx context.Context, conn *hall.Connection, run runs.Run, r, running sessionflow.Result, err error) error {
	return runs.Conclude(ctx, conn, run, r, running, err, printResult)
}

// watch follows a session and prints the result. Progress goes to stderr, or to stdout with
// --automation.
func watch(ctx context.Context, conn *hall.Connection, run runs.Run) error {
	display := progress.New(conn.Stderr)
	if conn.Automation {
		display = progress.NewLines(conn.Stdout)
	}
	if spent := runs.BeforeReset(ctx, conn, run); spent != "" {
		display.Note(spent)
	}
	v := &view{cli: conn.CLI, workflow: run.Workflow}
	r, err := runs.Follow(ctx, conn, run, display, v.snapshot, func(ctx context.Context) (sessionflow.Result, error) {
		return await(ctx, conn, run)
	})
	open := completed(running(run), v.state)
	if errors.Is(err, runs.ErrParked) {
		open.Status = drive.Parked
	}
	return conclude(ctx, conn, run, completed(r, v.state), open, err)
}

// view is the state of a followed session, as of its last snapshot.
type view struct {
	cli      *hall.CLI
	workflow string
	state    acts.State
	revote   int // the last round that repeated a vote; 0 for none
	received map[string]coordination.Entry
}

func (v *view) snapshot(ctx context.Context, f *runs.Follower) (progress.Snapshot, error) {
	var state acts.State
	if err := f.Query(ctx, drive.StateQuery, &state); err != nil {
		return progress.Snapshot{}, err
	}
	s := progress.Snapshot{State: state, Holds: holds(v.cli, state, v.workflow)}
	if f.Behind(state.Events) {
		var events []coordination.Entry
		if err := f.Query(ctx, drive.TimelineQuery, &events); err == nil {
			s.News, s.Missed = f.News(events)
			v.received = progress.Receive(v.received, s.News)
			if revote(state, events) {
				v.revote = state.Round
			}
		}
	}
	s.Revote, s.Received = v.revote > 0 && v.revote == state.Round, v.received
	v.state = state
	return s, nil
}

// completed adds the last known state to the result of a session that is open or was
// ended by Temporal.
func completed(r sessionflow.Result, s acts.State) sessionflow.Result {
	if r.Rounds == 0 {
		r.Rounds, r.Cost = s.Round, s.Cost
		r.Agents, r.Voters, r.Failed = len(s.Agents), s.Voters(), s.Failed()
		if len(r.Votes) == 0 && s.Votes != nil {
			r.Votes = s.Votes
		}
	}
	return r
}

// holds returns the reasons why an open session waits for a person.
func holds(c *hall.CLI, s acts.State, workflow string) []progress.Hold {
	if s.Status != drive.Running || s.Phase == coordination.PhaseDone {
		return nil
	}
	onRetry := "runs the failed steps again, `cancel` ends the session"
	if slices.ContainsFunc(s.Agents, func(a coordination.AgentView) bool { return a.Answers > 0 }) {
		onRetry = "runs the failed steps again, `finish` decides without them"
	}
	return runs.Holds(c, workflow, s.Paused, s.Parked, onRetry)
}

// revote reports whether the round of a running session repeats a split vote.
func revote(s acts.State, events []coordination.Entry) bool {
	for _, e := range events {
		if e.Revote() && e.Round == s.Round && s.Status == drive.Running {
			return true
		}
	}
	return false
}

// printResult prints the result of a session, and returns the exit code as an error.
func printResult(ctx context.Context, conn *hall.Connection, run runs.Run, r sessionflow.Result) error {
	var err error
	switch {
	case conn.Scripted():
		err = conn.PrintJSON(r)
	case r.Winner != "":
		err = printAnswer(ctx, conn, r)
	}
	if err != nil {
		return err
	}
	if run.Offline {
		conn.Infof("%s", team.OfflineNote)
	}
	if r.Winner == "" {
		if exitCode(r) == hall.ExitNoAnswer {
			suggestTranscript(conn, r)
			if r.Agents > 0 { // it was prepared
				runs.SuggestRetry(conn, run, r.Status)
			}
		}
		return &hall.ExitError{Code: exitCode(r), Err: noAnswer(r)}
	}
	switch coordination.Status(r.Status) {
	case coordination.Timeout:
		conn.Infof("the session's time ran out: this is the best answer so far; give it more with timeout_settings.orchestrator_timeout_seconds")
	case coordination.OverSpent:
		conn.Infof("the session's budget ran out: this is the best answer so far; give it more with orchestrator.budget")
	case coordination.Undecided:
		conn.Infof("undecided: this is the best answer, but %s; ask a person, or lower orchestrator.act_when.min_support", weakness(r))
	}
	return hall.Exit(exitCode(r))
}

// weakness describes the support of an undecided session's best answer.
func weakness(r sessionflow.Result) string {
	if r.Support == nil {
		return "it has too little support"
	}
	return fmt.Sprintf("only %.0f %% of the active agents support it", 100*r.Support.Share)
}

// suggestTranscript names the command that shows the replies of an agent whose step ended
// without an action.
func suggestTranscript(conn *hall.Connection, r sessionflow.Result) {
	i := slices.IndexFunc(r.Failed, func(f coordination.FailedAgent) bool { return f.Error.Type == "NoAction" })
	if i >= 0 && !conn.Scripted() {
		conn.Infof("`%s` shows what the model said", conn.CommandLine("transcript", r.SessionID, r.Failed[i].ID, "last"))
	}
}

// exitCode returns the exit code for a result. Input that a worker refused is a usage error.
func exitCode(r sessionflow.Result) int {
	if r.Error != nil && runs.RefusedInput(r.Error.Type) {
		return hall.ExitUsage
	}
	switch coordination.Status(r.Status) {
	case coordination.Consensus, coordination.Plurality, coordination.Finished, coordination.Limit,
		coordination.Presented, coordination.OverSpent:
		return hall.ExitOK
	case coordination.Timeout:
		return hall.ExitTimeout
	default: // undecided, failed, cancelled, running
		return hall.ExitNoAnswer
	}
}

// printAnswer prints the full answer on stdout and how it was decided on stderr.
func printAnswer(ctx context.Context, conn *hall.Connection, r sessionflow.Result) error {
	if err := runs.PrintText(ctx, conn, artifact.InBucket(r.SessionID), r.Answer, r.AnswerTruncated, r.AnswerPath); err != nil {
		return err
	}
	how := ground(r)
	conn.Infof("\n%s (%s) by %s%s · %s · %s", r.Winner, r.WinnerLabel, how, turnout(r), progress.Plural(r.Rounds, "round"), progress.FinalCost(r.Cost))
	conn.Infof("why it won, and how it came about: %s", conn.CommandLine("view", r.SessionID))
	conn.Infof("all answers, votes and files: %s", runs.PullCommand(conn, r.SessionID, r.AnswerPath, "/sessions/"))
	return nil
}

// ground returns the status of a decision and the reason for it.
func ground(r sessionflow.Result) string {
	switch {
	case coordination.Status(r.Status) == coordination.Presented:
		return "presentation, without a vote"
	case r.DecidedBy == coordination.ByAgreement:
		return r.Status + " · equal first answers, without a vote"
	}
	how := r.Status + " · " + progress.Plural(r.Votes[r.Winner], "fresh vote")
	if r.DecidedBy == coordination.ByChecks {
		how += ", ahead by checks"
	}
	if r.DecidedBy == coordination.ByQuorum {
		how += ", a quorum"
	}
	if len(r.Cut) > 0 {
		how += " without " + strings.Join(r.Cut, ", ")
	}
	return how
}

// turnout says how many agents have a fresh vote if some have none. It also names the
// failed agents and a broken tie.
func turnout(r sessionflow.Result) string {
	said, counts := []string{""}, []string{}
	voted := coordination.Status(r.Status) != coordination.Presented && r.DecidedBy != coordination.ByAgreement
	if voted && len(r.Voters) < r.Agents {
		counts = append(counts, fmt.Sprintf("%d of %d voted", len(r.Voters), r.Agents))
	}
	if len(r.Failed) > 0 {
		var failed []string
		for _, f := range r.Failed {
			failed = append(failed, f.ID+" ("+f.Error.Type+")")
		}
		counts = append(counts, fmt.Sprintf("%d failed: %s", len(failed), strings.Join(failed, ", ")))
	}
	if len(counts) > 0 {
		said = append(said, strings.Join(counts, ", "))
	}
	if r.Earlier {
		said = append(said, "an earlier attempt of the team; the last one decided nothing")
	}
	if len(r.Tie) > 0 {
		said = append(said, "a tie of "+strings.Join(r.Tie, ", "))
	}
	return strings.Join(said, " · ")
}

// noAnswer returns the error for a session without an answer.
func noAnswer(r sessionflow.Result) error {
	if r.Status == drive.Cancelled {
		return fmt.Errorf("session %s was cancelled; the files recorded until then can be pulled", r.SessionID)
	}
	if r.Error != nil {
		return fmt.Errorf("session %s failed: %s", r.SessionID, cmp.Or(r.Error.Message, r.Error.Type))
	}
	return fmt.Errorf("session %s ended as %s without an answer: no agent has one", r.SessionID, r.Status)
}
