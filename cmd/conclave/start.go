package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"conclave/workflows/drive"
	sessionflow "conclave/workflows/session"
)

func (c *cli) startCommand() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "start [flags] QUERY",
		Short: "Start the session and print its ID",
		Long: `Start the session on a cluster and print its ID on stdout; its workers run it.

Without an address the session is kept in the data directory and goes on
whenever a stack with a worker runs there: during run, watch, dev or worker.`,
		Example: `  id=$(conclave start --address temporal.example.com:7233 "Tabs or spaces?")
  conclave watch --address temporal.example.com:7233 "$id"
  conclave start --team reviewers --session-id release-42 "Is this release ready?"`,
		Args: arguments("QUERY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.start(cmd.Context(), flags, args[0])
		},
	}
	flags.add(cmd)
	return cmd
}

func (c *cli) start(ctx context.Context, flags sessionFlags, query string) error {
	return c.withNew(ctx, flags, query, ofAnyProcess, func(p *place, s session) error {
		if p.cluster {
			c.warnIdle(ctx, p)
		}
		if !c.people() {
			return c.printJSON(sessionflow.Result{SessionID: s.id, Status: drive.Running, Votes: map[string]int{}})
		}
		if !p.cluster {
			c.say("it goes on whenever a worker of this data directory runs; follow it with `%s`", c.again("watch", s.id))
		}
		if _, err := fmt.Fprintln(c.stdout, s.id); err != nil {
			return end(exitNoAnswer, "session %s has started, but print its ID: %w", s.id, err)
		}
		return nil
	})
}
