package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/progress"
	"conclave/engine/coordination"
	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status ID",
		Short: "One look at a session",
		Long: `One look at a session, running or ended: who is where, the votes, what is stale,
the cost, and what a paused or parked session waits for. With --json the whole
coordination state. It never runs a step.`,
		Example: `  conclave status 20261121-153012-k3f9
  conclave status --json 20261121-153012-k3f9 | jq '.agents[] | {id, status}'`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.status(cmd.Context(), args[0]) },
	}
}

func (c *cli) status(ctx context.Context, id string) error {
	return c.withLooker(ctx, id, func(p *place, k known) error {
		if k.kind == pipelineflow.Type {
			return c.pipelineStatus(ctx, p, k)
		}
		var state sessionflow.State
		if err := query(ctx, p, k.workflow, drive.StateQuery, &state); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !k.running() {
				return c.statusOfClosed(ctx, p, k)
			}
			return fmt.Errorf("ask session %s for its state: %w; its status is %s, and a worker has to run on the task queue %s to say more",
				k.id, err, k.status, p.queue)
		}
		if !c.people() {
			if k.offline {
				c.say("%s", offlineNote)
			}
			return c.printJSON(state)
		}
		if !k.running() {
			// Temporal may have ended it without asking.
			state.Status, state.Paused, state.Parked = k.status, false, nil
		}
		lines := progress.Table(progress.Snapshot{
			State: state, Elapsed: k.elapsed(), Offline: k.offline, Delays: k.delays,
			Holds: c.holds(state, k.workflow), Revote: repeats(ctx, p, k, state),
		})
		if k.running() {
			lines = append(lines, "  follow it: "+c.again("watch", k.workflow))
		} else if state.Winner != "" {
			lines = append(lines, "  its answer: "+c.again("result", k.workflow))
		}
		if !p.cluster {
			lines = append(lines, "  in the browser while a stack runs: "+p.link(k.workflow))
		}
		_, err := fmt.Fprintln(c.stdout, strings.Join(lines, "\n"))
		return unprinted(err)
	})
}

// repeats reports whether the session votes again on what was split. A session
// that does not say so is shown all the same.
func repeats(ctx context.Context, p *place, k known, state sessionflow.State) bool {
	var events []coordination.Entry
	err := query(ctx, p, k.workflow, drive.TimelineQuery, &events)
	return err == nil && revote(state, events)
}

// statusOfClosed says what Temporal itself knows of a session that has ended and
// answers no questions: one that was refused, or whose workers are gone.
func (c *cli) statusOfClosed(ctx context.Context, p *place, k known) error {
	r, err := await(ctx, p, k.workflow)
	if err != nil {
		return err
	}
	if k.offline && !c.people() {
		c.say("%s", offlineNote)
	}
	state := closedState(k, r)
	if !c.people() {
		return c.printJSON(state)
	}
	lines := progress.Table(progress.Snapshot{State: state, Elapsed: k.elapsed(), Offline: k.offline})
	if r.Error != nil {
		lines = append(lines, "  "+progress.Line(r.Error.Message))
	}
	_, err = fmt.Fprintln(c.stdout, strings.Join(lines, "\n"))
	return unprinted(err)
}

// closedState is as much of a session's state as its result and its memo say.
func closedState(k known, r sessionflow.Result) sessionflow.State {
	state := sessionflow.State{SessionID: k.id, Query: k.query, Status: k.status}
	state.Phase, state.Agents = coordination.PhaseDone, []coordination.AgentView{}
	state.Votes, state.Round, state.Winner, state.Cost = r.Votes, r.Rounds, r.Winner, r.Cost
	if state.Votes == nil {
		state.Votes = map[string]int{}
	}
	return state
}
