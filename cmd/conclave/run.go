package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities"
	pipelineflow "conclave/workflows/pipeline"
)

func (c *cli) runCommand() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "run [flags] QUERY",
		Short: "Take QUERY to a decision and print the answer",
		Long: `Take QUERY to a decision and print the answer.

Without an address the session runs on this machine, on an embedded Temporal
server and S3 store with a worker in this process. Ctrl-C stops looking: the
session is kept, and goes on with the next run, watch, dev or worker on the same
data directory. With an address the session is started on that cluster and
followed.

Exit codes: 0 decided, 1 wrong usage or configuration and nothing started,
2 no answer, 3 the session's time ran out (the best answer is printed),
4 interrupted.`,
		Example: `  conclave run --offline "Tabs or spaces?"
  conclave run --config team.yaml "Design a rate limiter for our API"
  conclave run --automation "Tabs or spaces?" | tail -n 1 | jq -r .answer
  conclave run --address temporal.example.com:7233 --bucket sessions "Tabs or spaces?"`,
		Args: arguments("QUERY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), flags, args[0])
		},
	}
	flags.add(cmd)
	return cmd
}

func (c *cli) run(ctx context.Context, flags sessionFlags, query string) error {
	return c.withNew(ctx, flags, query, inThisProcess, func(p *place, s session) error {
		if !p.cluster {
			stop, err := c.work(p, c.passingTeam(p.target), runsSteps)
			if err != nil {
				return end(exitNoAnswer, "run session %s: %w; `%s` goes on with it", s.id, err, c.again("watch", s.id))
			}
			defer stop()
		}
		return c.followAndPrint(ctx, p, known{id: s.id, workflow: s.id, offline: s.offline, started: time.Now()})
	})
}

// withNew checks the input, connects, starts the session and hands it to use.
// Nothing is started, the stack included, while anything is wrong with the input.
func (c *cli) withNew(ctx context.Context, flags sessionFlags, query string, w whose, use func(*place, session) error) error {
	t, err := c.target()
	if err != nil {
		return err
	}
	s, err := c.session(t, flags, query)
	if err != nil {
		return err
	}
	if !t.cluster {
		if err := c.equip(ctx, s.team, w); err != nil {
			return err
		}
	}
	return c.at(ctx, t, func(p *place) error {
		if err := probe(ctx, p); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if err := c.begin(ctx, p, &s); err != nil {
			return err
		}
		return use(p, s)
	})
}

// begin starts the session and says what has begun.
func (c *cli) begin(ctx context.Context, p *place, s *session) error {
	if !p.cluster {
		var err error
		if s.input.Team, err = (activities.Teams{Dir: p.teamsDir()}).Register(s.team); err != nil {
			return err
		}
	}
	if err := c.launch(ctx, p, s.id, *s); err != nil {
		return err
	}
	c.introduce(p, *s)
	return nil
}

// introduce says on stderr what has begun; a script is told only what it could
// mistake.
func (c *cli) introduce(p *place, s session) {
	if s.offline {
		c.say("%s", offlineNote)
	}
	if !c.people() {
		return
	}
	c.say("session %s %s", s.id, p.where())
	if len(s.team.Agents) > 0 {
		c.say("team from %s: %s", s.source, describeTeam(s.team))
	}
	if !p.cluster {
		c.say("in the browser: %s", p.link(s.id))
	}
}

// followAndPrint follows a session and prints what came out, which for an
// interrupted one in automation is that it runs.
func (c *cli) followAndPrint(ctx context.Context, p *place, k known) error {
	if k.kind == pipelineflow.Type {
		return c.followPipelineAndPrint(ctx, p, k)
	}
	result, err := c.follow(ctx, p, k)
	if err != nil {
		if !c.people() {
			if printErr := c.printJSON(result); printErr != nil {
				return printErr
			}
		}
		return err
	}
	return c.printResult(ctx, p, k, result)
}
