package main

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/spf13/cobra"

	"conclave/workflows/drive"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

func (c *cli) resultCommand() *cobra.Command {
	wait := false
	cmd := &cobra.Command{
		Use:   "result ID",
		Short: "The final answer of a session",
		Long: `Print the final answer of a session, or with --json its whole result. It never
runs a step.

The exit code is that of the session's end; a session that has not ended has no
answer, which is exit code 2 without --wait.`,
		Example: `  conclave result 20261121-153012-k3f9
  conclave result --wait --json 20261121-153012-k3f9 | jq -r .answer`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.result(cmd.Context(), args[0], wait) },
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the session has ended")
	return cmd
}

func (c *cli) result(ctx context.Context, id string, wait bool) error {
	return c.withLooker(ctx, id, func(p *place, k known) error {
		if k.running() && !wait {
			if !c.people() {
				if err := c.printJSON(unended(k)); err != nil {
					return err
				}
			}
			return end(exitNoAnswer, "%s %s is still running; wait for it with `%s`, or follow it with `%s`",
				k.noun(), k.id, c.again("result --wait", k.workflow), c.again("watch", k.workflow))
		}
		if k.running() {
			c.warnIdle(ctx, p)
		}
		if k.kind == pipelineflow.Type {
			return c.awaitAndPrintPipeline(ctx, p, k)
		}
		r, err := await(ctx, p, k.workflow)
		if err != nil {
			if r, err = c.unfinished(ctx, p, k, err); !c.people() {
				if printErr := c.printJSON(r); printErr != nil {
					return printErr
				}
			}
			return err
		}
		return c.printResult(ctx, p, k, r)
	})
}

// unended is the result of what has not ended.
func unended(k known) any {
	if k.kind == pipelineflow.Type {
		return runningPipeline(k)
	}
	return sessionflow.Result{SessionID: k.id, Status: drive.Running, Votes: map[string]int{}}
}

// warnIdle tells a person who waits that nobody may be at work.
func (c *cli) warnIdle(ctx context.Context, p *place) {
	polled, err := workersPoll(ctx, p, p.queue+drive.StepsSuffix, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil || polled {
		return
	}
	if p.cluster {
		c.say("%s", noWorker(p))
		return
	}
	c.say("no worker runs steps %s: the session goes on during run, watch, dev or worker", p.where())
}
