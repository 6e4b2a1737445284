package session

import (
	"context"
	"errors"
	"slices"

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
		Running: func(ctx context.Context, conn *hall.Connection, run runs.Run) any {
			r := running(run)
			r.Status = run.Shown()
			return completed(r, run.Counting(lastState(ctx, conn, run)))
		},
		Watch: watch,
		Result: func(ctx context.Context, conn *hall.Connection, run runs.Run) error {
			r, err := await(ctx, conn, run)
			if err != nil {
				return runs.LeaveOpen(ctx, conn, run, running(run), err)
			}
			return printResult(ctx, conn, run, r)
		},
		Await: func(ctx context.Context, conn *hall.Connection, run runs.Run) (any, string, error) {
			r, err := await(ctx, conn, run)
			return r, r.Status, err
		},
		Status: status,
		Reopen: reopen, Undecided: string(coordination.Undecided),
	}
}

// reopen returns the input of a run that continues an ended session. It refuses a session whose
// decision stands.
func reopen(ctx context.Context, conn *hall.Connection, run runs.Run, asked drive.Request) (any, error) {
	if run.Status != string(coordination.FailedAll) && run.Status != string(coordination.Undecided) && run.Status != drive.Cancelled {
		return nil, hall.Exitf(hall.ExitUsage, "retry %s: it has decided (%s), and a decision stands; nothing was started, `%s` prints the answer",
			run, run.Status, conn.CommandLine("result", run.Workflow))
	}
	input := sessionflow.Input{Resume: true, Agent: asked.Agent, Text: asked.Text}
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
	if err := saved.CanReopen(ctx, acts.ReopenInput{Session: run.ID, WorkflowID: run.Workflow, Agent: asked.Agent, Text: asked.Text}); err != nil {
		return nil, runs.CannotReopen(conn, run, asked, err)
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
		DurationSeconds: run.Seconds(),
	}
}

// await waits for the end of a session and returns its result. If Temporal ended the
// session, the result is completed from the last state.
func await(ctx context.Context, conn *hall.Connection, run runs.Run) (sessionflow.Result, error) {
	r, err := runs.Await(ctx, conn, run, endedResult)
	if err != nil || !runs.CutOff(r.Error) {
		return r, err
	}
	return completed(r, lastState(ctx, conn, run)), nil
}

// lastState returns the state of a session, or the last recorded one if no worker answers.
func lastState(ctx context.Context, conn *hall.Connection, run runs.Run) acts.State {
	var state acts.State
	if answered, _ := runs.QueryState(ctx, conn, run, &state); !answered {
		state, _ = recorded(ctx, conn, run)
	}
	return state
}

// endedResult returns the result of a session that Temporal ended.
func endedResult(run runs.Run, status string, err *artifact.Error) sessionflow.Result {
	r := running(run)
	r.Status, r.Error = status, err
	return r
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
	if err == nil {
		return printResult(ctx, conn, run, completed(r, v.state))
	}
	open := completed(running(run), v.state)
	if errors.Is(err, runs.ErrParked) {
		open.Status = drive.Parked
	}
	return runs.LeaveOpen(ctx, conn, run, open, err)
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
