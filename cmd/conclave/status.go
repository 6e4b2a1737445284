package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/progress"
	"conclave/workflows"
)

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status ID",
		Short: "One look at a session",
		Long: `One look at a session, running or ended: who is where, the votes, what is stale,
the cost. With --json the whole coordination state. It never runs a step.`,
		Example: `  conclave status 20261121-153012-k3f9
  conclave status --json 20261121-153012-k3f9 | jq '.agents[] | {id, status}'`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.status(cmd.Context(), args[0]) },
	}
}

func (c *cli) status(ctx context.Context, id string) error {
	return c.withLooker(ctx, id, func(p *place, k known) error {
		var state workflows.State
		if err := query(ctx, p, k.workflow, workflows.StateQuery, &state); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
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
			state.Status = k.status // Temporal may have ended it without asking
		}
		lines := progress.Table(progress.Snapshot{State: state, Elapsed: k.elapsed(), Offline: k.offline})
		if k.running() {
			lines = append(lines, "  follow it: "+c.again("watch", k.workflow))
		} else {
			lines = append(lines, "  its answer: "+c.again("result", k.workflow))
		}
		if !p.cluster {
			lines = append(lines, "  in the browser while a stack runs: "+p.link(k.workflow))
		}
		_, err := fmt.Fprintln(c.stdout, strings.Join(lines, "\n"))
		return err
	})
}
