package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	pipelineflow "conclave/workflows/pipeline"
)

func (c *cli) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a session",
		Long: `Ask a session to end without a decision, and wait until it has. Running steps are
ended; what was accepted stays on record and can be pulled.

Without an address, cancel joins the local stack and puts the last things on
record itself; it runs no steps.`,
		Example: `  conclave cancel 20261121-153012-k3f9`,
		Args:    arguments("ID"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.cancel(cmd.Context(), args[0]) },
	}
}

func (c *cli) cancel(ctx context.Context, id string) error {
	return c.withLooker(ctx, id, func(p *place, k known) error {
		if !k.running() && k.status != statusCancelled {
			return end(exitUsage, "%s %s has ended already (%s); `%s` prints what came out", k.noun(), k.id, k.status, c.again("result", k.workflow))
		}
		if k.running() {
			asking, stop := context.WithTimeout(ctx, reachTimeout)
			defer stop()
			var missing *serviceerror.NotFound // it ended in between
			if err := p.client.CancelWorkflow(asking, k.workflow, ""); err != nil && !errors.As(err, &missing) {
				return fmt.Errorf("cancel %s %s: %w", k.noun(), k.id, err)
			}
		}
		r, status, err := ended(ctx, p, k)
		switch {
		case err != nil && ctx.Err() != nil:
			return end(exitInterrupted, "interrupted: %s %s was asked to end but has not yet; `%s` shows it", k.noun(), k.id, c.again("status", k.workflow))
		case err != nil:
			return end(exitInterrupted, "%s %s was asked to end, but then: %w; `%s` shows it", k.noun(), k.id, err, c.again("status", k.workflow))
		}
		if !c.people() {
			return c.printJSON(r)
		}
		c.say("%s %s: %s", k.noun(), k.id, status)
		return nil
	})
}

// ended waits for the end and returns the result, whatever its kind, and the status.
func ended(ctx context.Context, p *place, k known) (result any, status string, err error) {
	if k.kind == pipelineflow.Type {
		r, err := awaitPipeline(ctx, p, k)
		return r, string(r.Status), err
	}
	r, err := await(ctx, p, k.workflow)
	return r, r.Status, err
}
