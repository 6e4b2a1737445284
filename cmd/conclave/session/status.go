package session

import (
	"context"
	"fmt"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// status prints the state of a session.
func status(ctx context.Context, conn *hall.Connection, run runs.Run) error {
	var state sessionflow.State
	if err := runs.Query(ctx, conn, run.Workflow, drive.StateQuery, &state); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !run.Running() {
			return statusOfClosed(ctx, conn, run)
		}
		return fmt.Errorf("ask session %s for its state: %w; its status is %s, and a worker has to run on the task queue %s to say more",
			run.ID, err, run.Status, conn.Queue)
	}
	if conn.Scripted() {
		return printState(conn, run, state)
	}
	if !run.Running() {
		// Temporal ends a workflow without its knowledge.
		state.Status, state.Paused, state.Parked = run.Status, false, nil
	}
	lines := progress.Table(progress.Snapshot{
		State: state, Elapsed: run.Elapsed(), Offline: run.Offline, Delays: run.Delays,
		Holds: holds(conn.CLI, state, run.Workflow), Revote: repeatsVote(ctx, conn, run, state),
	})
	if run.Running() {
		lines = append(lines, "  follow it: "+conn.CommandLine("watch", run.Workflow))
	} else if state.Winner != "" {
		lines = append(lines, "  its answer: "+conn.CommandLine("result", run.Workflow))
	}
	if !conn.Cluster {
		lines = append(lines, "  in the browser while a stack runs: "+conn.URL(run.Workflow))
	}
	return conn.Print(strings.Join(lines, "\n") + "\n")
}

// printState prints a state for programs.
func printState(conn *hall.Connection, run runs.Run, state sessionflow.State) error {
	if run.Offline {
		conn.Infof("%s", team.OfflineNote)
	}
	return conn.PrintJSON(state)
}

// repeatsVote reports whether the round repeats a split vote, as far as it is known.
func repeatsVote(ctx context.Context, conn *hall.Connection, run runs.Run, state sessionflow.State) bool {
	var events []coordination.Entry
	err := runs.Query(ctx, conn, run.Workflow, drive.TimelineQuery, &events)
	return err == nil && revote(state, events)
}

// statusOfClosed prints the state of an ended session that answers no queries,
// because its input was refused or its workers are gone.
func statusOfClosed(ctx context.Context, conn *hall.Connection, run runs.Run) error {
	r, err := await(ctx, conn, run)
	if err != nil {
		return err
	}
	state := closedState(run, r)
	if conn.Scripted() {
		return printState(conn, run, state)
	}
	lines := progress.Table(progress.Snapshot{State: state, Elapsed: run.Elapsed(), Offline: run.Offline})
	if r.Error != nil {
		lines = append(lines, "  "+progress.Line(r.Error.Message))
	}
	return conn.Print(strings.Join(lines, "\n") + "\n")
}

// closedState is the part of a state that follows from the result and the memo.
func closedState(run runs.Run, r sessionflow.Result) sessionflow.State {
	state := sessionflow.State{SessionID: run.ID, Query: run.Query, Status: run.Status}
	state.Phase, state.Agents = coordination.PhaseDone, []coordination.AgentView{}
	state.Votes, state.Round, state.Winner, state.Cost = r.Votes, r.Rounds, r.Winner, r.Cost
	if state.Votes == nil {
		state.Votes = map[string]int{}
	}
	return state
}
