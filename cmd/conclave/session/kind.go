package session

import (
	"context"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// Kind describes sessions to the commands that take an ID.
func Kind() *runs.Kind {
	return &runs.Kind{
		Type: sessionflow.Type, Noun: "session", List: "list", MemoID: sessionflow.MemoSession, Failed: string(coordination.FailedAll),
		OfflineNote: team.OfflineNote,
		Running:     func(run runs.Run) any { return running(run) },
		Watch:       watch,
		Result: func(ctx context.Context, conn *hall.Connection, run runs.Run) error {
			r, err := await(ctx, conn, run)
			return conclude(ctx, conn, run, r, running(run), err)
		},
		Await: func(ctx context.Context, conn *hall.Connection, run runs.Run) (any, string, error) {
			r, err := await(ctx, conn, run)
			return r, r.Status, err
		},
		Status: status,
	}
}

// running is the result of a session that has not ended.
func running(run runs.Run) sessionflow.Result {
	return sessionflow.Result{SessionID: run.ID, Status: drive.Running, Votes: map[string]int{}}
}

// await waits for the end of a session and returns its result.
func await(ctx context.Context, conn *hall.Connection, run runs.Run) (sessionflow.Result, error) {
	return runs.Await(ctx, conn, run, endedResult)
}

// endedResult is the result of a session that Temporal ended.
func endedResult(run runs.Run, status string, err *artifact.Error) sessionflow.Result {
	r := running(run)
	r.Status, r.Error = status, err
	return r
}

func conclude(ctx context.Context, conn *hall.Connection, run runs.Run, r, running sessionflow.Result, err error) error {
	return runs.Conclude(ctx, conn, run, r, running, err, func(r sessionflow.Result) error {
		return printResult(ctx, conn, run, r)
	})
}

// watch follows a session to its end and prints the result. Progress goes to stderr;
// in automation it is part of stdout.
func watch(ctx context.Context, conn *hall.Connection, run runs.Run) error {
	display := progress.New(conn.Stderr)
	if conn.Automation {
		display = progress.NewLines(conn.Stdout)
	}
	v := &view{cli: conn.CLI, workflow: run.Workflow}
	r, err := runs.Follow(ctx, conn, run, display, v.snapshot, func(ctx context.Context) (sessionflow.Result, error) {
		return await(ctx, conn, run)
	})
	return conclude(ctx, conn, run, v.complete(r), v.complete(running(run)), err)
}

// view is the state of a followed session, as of its last snapshot.
type view struct {
	cli      *hall.CLI
	workflow string
	state    sessionflow.State
	revote   int // the last round that repeated a vote; 0 for none
}

func (v *view) snapshot(ctx context.Context, f *runs.Follower) (progress.Snapshot, error) {
	var state sessionflow.State
	if err := f.Query(ctx, drive.StateQuery, &state); err != nil {
		return progress.Snapshot{}, err
	}
	s := progress.Snapshot{State: state, Holds: holds(v.cli, state, v.workflow)}
	if f.Behind(state.Events) {
		var events []coordination.Entry
		if err := f.Query(ctx, drive.TimelineQuery, &events); err == nil {
			s.News, s.Missed = f.News(events)
			if revote(state, events) {
				v.revote = state.Round
			}
		}
	}
	s.Revote = v.revote > 0 && v.revote == state.Round
	v.state = state
	return s, nil
}

// complete adds rounds, cost and votes to a result without them: one of a session
// that goes on, or that Temporal ended.
func (v *view) complete(r sessionflow.Result) sessionflow.Result {
	if r.Rounds == 0 {
		r.Rounds, r.Cost = v.state.Round, v.state.Cost
		if len(r.Votes) == 0 && v.state.Votes != nil {
			r.Votes = v.state.Votes
		}
	}
	return r
}

// holds are the reasons why an open session waits for a person.
func holds(c *hall.CLI, s sessionflow.State, workflow string) []progress.Hold {
	if s.Status != drive.Running || s.Phase == coordination.PhaseDone {
		return nil
	}
	return runs.Holds(c, workflow, s.Paused, s.Parked, "runs what failed again, finish decides without it")
}

// revote reports whether the round of a running session repeats a split vote.
func revote(s sessionflow.State, events []coordination.Entry) bool {
	for _, e := range events {
		if e.Kind == coordination.EntryRevote && e.Round == s.Round && s.Status == drive.Running {
			return true
		}
	}
	return false
}
