package session

import (
	"context"
	"strings"
	"time"

	acts "conclave/activities/session"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/progress"
	"conclave/cmd/conclave/runs"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

// status prints the state of a session.
func status(ctx context.Context, conn *hall.Connection, run runs.Run) error {
	run, state, err := readState(ctx, conn, run)
	if err != nil {
		return err
	}
	if conn.Scripted() {
		if state.Status == drive.Running {
			state.Status = runs.Waiting(state.Paused, state.Parked)
		}
		for i, a := range state.Agents {
			if doing := run.Doing(a.ID); doing != nil {
				state.Agents[i].Doing = doing
			}
		}
		return runs.PrintState(conn, run, state)
	}
	shown := progress.Snapshot{
		State: state, Elapsed: run.Elapsed(), Offline: run.Offline, Holds: holds(conn.CLI, state, run.Workflow),
		Now: time.Now(), Activities: run.Activities,
	}
	var events []coordination.Entry
	if run.Running() && runs.Query(ctx, conn, run.Workflow, drive.TimelineQuery, &events) == nil {
		shown.Revote, shown.Received = revote(state, events), progress.Receive(nil, events)
	}
	lines := progress.Table(shown)
	if spent := runs.BeforeReset(ctx, conn, run); spent != "" {
		lines = append(lines, "  "+spent)
	}
	if why := runs.EndLine(state.Status, state.Error); why != "" {
		lines = append(lines, why)
	}
	if state.Continues != "" {
		lines = append(lines, "  continues "+strings.Join(chain(ctx, conn, state.Continues), ", which continues "))
	}
	result := ""
	if state.Winner != "" {
		result = "answer"
	}
	return runs.PrintStatus(ctx, conn, run, lines, result)
}

// readState returns the state of a session, with its run as of now.
func readState(ctx context.Context, conn *hall.Connection, run runs.Run) (runs.Run, acts.State, error) {
	var state acts.State
	answered, err := runs.QueryState(ctx, conn, run, &state)
	if err != nil {
		return run, state, err
	}
	if !answered {
		r, err := await(ctx, conn, run)
		if err != nil {
			return run, state, err
		}
		state = closedState(ctx, conn, run, r)
	}
	if state.Phase == coordination.PhaseDone { // it may have ended since it was looked up
		run = runs.Refreshed(ctx, conn, run)
	}
	if !run.Running() {
		closeState(&state, run, runs.EndError(ctx, conn, run))
	}
	return run, run.Counting(state), nil
}

// chain returns the IDs of a session and of the sessions that it continues, the newest
// first. It ends where the store has no record.
func chain(ctx context.Context, conn *hall.Connection, id string) []string {
	const most = 20
	ids := []string{id}
	for conn.Store != nil && len(ids) < most {
		session, err := artifact.ReadJSON[artifact.Session](ctx, conn.Store, artifact.InBucket(ids[len(ids)-1]).File("session.json"))
		if err != nil || session.Continues == "" {
			break
		}
		ids = append(ids, session.Continues)
	}
	return ids
}

// closeState corrects the state of a closed session. A workflow ended by Temporal has not
// updated its state.
func closeState(state *acts.State, run runs.Run, why *artifact.Error) {
	state.Status, state.Phase, state.Paused, state.Parked = run.Status, coordination.PhaseDone, false, nil
	for i := range state.Agents {
		state.Agents[i].Running, state.Agents[i].Purpose, state.Agents[i].Doing = false, coordination.Coordinate, nil
	}
	if why != nil {
		state.Error = why
	}
}

// closedState returns the last recorded state, or else the part of it in the result and
// the memo.
func closedState(ctx context.Context, conn *hall.Connection, run runs.Run, r sessionflow.Result) acts.State {
	if state, ok := recorded(ctx, conn, run); ok {
		return state
	}
	state := acts.State{SessionID: run.ID, Query: run.Query, Status: run.Status}
	state.Phase, state.Agents = coordination.PhaseDone, []coordination.AgentView{}
	state.Votes, state.Round, state.Winner, state.Cost, state.Error = r.Votes, r.Rounds, r.Winner, r.Cost, r.Error
	if state.Votes == nil {
		state.Votes = map[string]int{}
	}
	return state
}

// recorded returns the last recorded state. If the input of this session was refused,
// another session with the same ID may have recorded the state; that state is ignored.
func recorded(ctx context.Context, conn *hall.Connection, run runs.Run) (state acts.State, ok bool) {
	if conn.Store == nil || run.Refused() {
		return state, false
	}
	ctx, cancel := context.WithTimeout(ctx, hall.ReachTimeout)
	defer cancel()
	state, err := artifact.ReadJSON[acts.State](ctx, conn.Store, artifact.InBucket(run.ID).File("status.json"))
	return state, err == nil
}
