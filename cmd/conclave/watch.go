package main

import (
	"context"

	"github.com/spf13/cobra"

	"conclave/engine/config"
)

func (c *cli) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a session live",
		Long: `Follow a session live and print its answer when it has one. Ctrl-C stops looking
and leaves the session as it is.

Without an address, watch joins the local stack as a worker, so that an
unfinished session goes on.`,
		Example: `  conclave watch 20261121-153012-k3f9
  conclave watch --automation 20261121-153012-k3f9 | tail -n 1 | jq .winner`,
		Args: arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.watch(cmd.Context(), args[0]) },
	}
}

func (c *cli) watch(ctx context.Context, id string) error {
	return c.withWorker(ctx, id, func(p *place, k known) error {
		if !p.cluster && c.people() {
			c.say("in the browser: %s", p.link(k.workflow))
		}
		return c.followAndPrint(ctx, p, k)
	})
}

// withWorker is withSession with a worker on a local stack, which runs the
// steps that an unfinished session waits for.
func (c *cli) withWorker(ctx context.Context, id string, use func(*place, known) error) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	return c.withSession(ctx, t, id, func(p *place, k known) error {
		if !p.cluster {
			s, team := onlyLooks, config.Team{}
			if k.running() {
				// The session has its own team. This one is for other sessions of the
				// stack; without its key they wait, as they would without us.
				s, team = runsSteps, c.passingTeam(t)
			}
			stop, err := c.work(p, team, s)
			if err != nil {
				return err
			}
			defer stop()
		}
		return use(p, k)
	})
}

// withSession connects and looks the session up before it calls use.
func (c *cli) withSession(ctx context.Context, t target, id string, use func(*place, known) error) error {
	return c.at(ctx, t, func(p *place) error {
		k, err := c.find(ctx, p, id)
		if err != nil {
			return err
		}
		return use(p, k)
	})
}

// withLooker is withSession with a worker that answers queries where there may
// be no other, and runs no steps.
func (c *cli) withLooker(ctx context.Context, id string, use func(*place, known) error) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	return c.withSession(ctx, t, id, func(p *place, k known) error {
		if !p.cluster {
			stop, err := c.work(p, config.Team{}, onlyLooks)
			if err != nil {
				return err
			}
			defer stop()
		}
		return use(p, k)
	})
}
