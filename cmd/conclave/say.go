package main

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"conclave/engine/coordination"
	"conclave/workflows/drive"
)

func (c *cli) sayCommand() *cobra.Command {
	agent := ""
	cmd := &cobra.Command{
		Use:   "say ID TEXT",
		Short: "A human message to all agents, or one with --agent",
		Long: `Tell the agents of a running session something. Whoever is at work reads it
between two calls of the model, everybody else at the next step; votes that were
cast without it are cast again. The message is kept on record. In a run of a
pipeline, the running step and all later ones read it.

Without an address, say joins the local stack; it runs no steps.`,
		Example: `  conclave say 20261121-153012-k3f9 "The budget is 2000 euros."
  conclave say 20261121-153012-k3f9 "Check the licence, too." --agent agent_b`,
		Args: arguments("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.sayTo(cmd.Context(), args[0], drive.SayInput{Text: args[1], Agent: agent})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "tell only the agent `ID`")
	return cmd
}

func (c *cli) sayTo(ctx context.Context, id string, in drive.SayInput) error {
	switch {
	case len(in.Text) > coordination.MaxText:
		return fmt.Errorf("the TEXT has %d bytes, at most %d are accepted; say it shorter, or in several messages", len(in.Text), coordination.MaxText)
	case !utf8.ValidString(in.Text):
		return errors.New("the TEXT is not UTF-8 text; convert it, for instance with iconv")
	}
	who := "it is read"
	if in.Agent != "" {
		who = in.Agent + " reads it"
	}
	return c.update(ctx, id, update{
		name: drive.SaySignal, what: "say something to", payload: in, agent: in.Agent, next: "watch", steps: true,
		done: "noted; " + who + " at the next safe point, %s follows it",
	})
}
