package runs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
	"conclave/workflows/drive"
)

// commands implements the commands that take the ID of a run of any kind.
type commands struct {
	cli    *hall.CLI
	kinds  []*Kind
	others []*Kind // kinds that have commands of their own
}

// Commands returns the commands that take the ID of a run of these kinds. say and retry
// also accept the kinds in others.
func Commands(cli *hall.CLI, kinds []*Kind, others ...*Kind) []*cobra.Command {
	c := commands{cli: cli, kinds: kinds, others: others}
	more := commands{cli: cli, kinds: slices.Concat(kinds, others)}
	return []*cobra.Command{
		c.watch(), c.status(), c.result(), more.say(), c.pause(), c.resume(), c.finish(), c.cancel(), more.retry(),
	}
}

// find finds the run with an ID. It refuses a run whose kind has its own commands.
func (c commands) find(ctx context.Context, conn *hall.Connection, id string) (Run, error) {
	run, err := find(ctx, conn, slices.Concat(c.kinds, c.others), id)
	if err != nil || !slices.Contains(c.others, run.Kind) {
		return run, err
	}
	room, _, _ := strings.Cut(run.Kind.List, " ")
	return Run{}, hall.Exitf(hall.ExitUsage, "%s is a %s; this command takes the ID of a %s, and `conclave %s --help` has the commands for %ss",
		id, run.Kind.Noun, nouns(c.kinds), room, run.Kind.Noun)
}

// with finds the run with an ID and calls use while connected to it. On a local stack a worker
// of this process answers queries meanwhile, and if runSteps is set it also runs the steps of
// an open run.
func (c commands) with(ctx context.Context, id string, runSteps bool, use func(*hall.Connection, Run) error) error {
	t, err := c.cli.Target()
	if err != nil {
		return err
	}
	return c.cli.With(ctx, t, func(conn *hall.Connection) error {
		run, err := c.find(ctx, conn, id)
		if err != nil {
			return err
		}
		var stop func()
		if runSteps && run.Running() {
			stop, err = team.RunWorker(conn, nil, run.Workflow)
		} else {
			stop, err = team.RunObserver(conn)
		}
		if err != nil {
			return err
		}
		defer stop()
		return use(conn, run)
	})
}

// Observe finds the run of a kind with an ID and calls use while connected to it, without
// running steps.
func Observe(ctx context.Context, cli *hall.CLI, kind *Kind, id string, use func(*hall.Connection, Run) error) error {
	return commands{cli: cli, kinds: []*Kind{kind}}.with(ctx, id, false, use)
}

// command completes a command that takes the ID of a run.
func (c commands) command(cmd *cobra.Command, runSteps bool, use func(context.Context, *hall.Connection, Run) error) *cobra.Command {
	cmd.Args = hall.Arguments("ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.with(cmd.Context(), args[0], runSteps, func(conn *hall.Connection, run Run) error { return use(cmd.Context(), conn, run) })
	}
	return cmd
}

// update completes a command that sends the update of a verb to the run with an ID.
func (c commands) update(cmd *cobra.Command, verb string) *cobra.Command {
	return c.command(cmd, false, func(ctx context.Context, conn *hall.Connection, run Run) error {
		u, err := Request{Verb: verb}.update()
		if err != nil {
			return err
		}
		return apply(ctx, conn, run, u)
	})
}

func (c commands) watch() *cobra.Command {
	cmd := c.command(&cobra.Command{
		Use:   "watch ID",
		Short: "Follow a session live",
		Long: `Follow a session live and print its answer at the end. Ctrl-C stops watching and
leaves the session as it is.

Without an address, watch joins the local stack as a worker, so that an
unfinished session continues.`,
		Example: `  conclave watch 20261121-153012-k3f9
  conclave watch --automation 20261121-153012-k3f9 | tail -n 1 | jq .winner`,
	}, true, func(ctx context.Context, conn *hall.Connection, run Run) error {
		if !conn.Scripted() {
			if run.Kind.Offer != nil && run.Running() {
				defer run.Kind.Offer(conn, c.kinds...)()
			}
			printLinks(conn, run.Kind, run.ID, run.Workflow)
		}
		return run.Kind.Watch(ctx, conn, run)
	})
	team.WorkerConfigFlag(c.cli, cmd.Flags())
	return cmd
}

func (c commands) status() *cobra.Command {
	return c.command(&cobra.Command{
		Use: "status ID", SuggestFor: []string{"show", "describe", "info", "inspect"},
		Short: "The state of a session",
		Long: `Show the state of a session, running or ended: its agents, the votes, stale votes,
the cost, and why a paused or parked session waits. With --json it prints the whole
coordination state. It never runs a step.`,
		Example: `  conclave status 20261121-153012-k3f9
  conclave status --json 20261121-153012-k3f9 | jq '.agents[] | {id, status}'`,
	}, false, func(ctx context.Context, conn *hall.Connection, run Run) error {
		err := run.Kind.Status(ctx, conn, run)
		if silent, ok := errors.AsType[*silenceError](err); ok {
			return printMemo(ctx, conn, run, silent.why)
		}
		return err
	})
}

func (c commands) result() *cobra.Command {
	wait := false
	cmd := c.command(&cobra.Command{
		Use:   "result ID",
		Short: "The final answer of a session",
		Long: `Print the final answer of a session, or with --json its whole result. It never
runs a step.

The exit code is that of the session's end; a session that has not ended has no
answer, which is exit code 2 without --wait.`,
		Example: `  conclave result 20261121-153012-k3f9
  conclave result --wait --json 20261121-153012-k3f9 | jq -r .answer`,
	}, false, func(ctx context.Context, conn *hall.Connection, run Run) error {
		if run.Running() && !wait {
			return notEnded(ctx, conn, run)
		}
		if run.Running() && !conn.WarnIdle(ctx, run.queue(conn)) {
			defer NoteSilence(ctx, conn, run, func(why string, _ bool) { conn.Infof("%s", why) })()
		}
		return run.Kind.Result(ctx, conn, run)
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the session has ended")
	return cmd
}

// notEnded returns the error for a run that is still open. For programs it also prints the running
// result.
func notEnded(ctx context.Context, conn *hall.Connection, run Run) error {
	if conn.Scripted() {
		if err := conn.PrintJSON(run.Kind.Running(ctx, conn, run)); err != nil {
			return err
		}
	}
	switch run.waiting {
	case drive.Parked:
		return hall.Exitf(hall.ExitNoAnswer, "%s is parked and has no result yet: fix the cause that `%s` names, then `%s` continues it",
			run, conn.CommandLine("status", run.Workflow), conn.CommandLine("retry", run.Workflow))
	case drive.Paused:
		return hall.Exitf(hall.ExitNoAnswer, "%s is paused and has no result yet; `%s` resumes it", run, conn.CommandLine("resume", run.Workflow))
	}
	return hall.Exitf(hall.ExitNoAnswer, "%s is still running; wait for it with `%s`, or follow it with `%s`",
		run, conn.CommandLine("result --wait", run.Workflow), conn.CommandLine("watch", run.Workflow))
}

func (c commands) pause() *cobra.Command {
	return c.update(&cobra.Command{
		Use:   "pause ID",
		Short: "Suspend a session until it is resumed",
		Long: `Suspend a session: running steps are suspended, no step is started, and its clock
stops. Nothing is lost; resume continues where it stopped.

Without an address, pause joins the local stack; it runs no steps.`,
		Example: `  conclave pause 20261121-153012-k3f9
  conclave resume 20261121-153012-k3f9`,
	}, drive.PauseSignal)
}

func (c commands) resume() *cobra.Command {
	return c.update(&cobra.Command{
		Use:   "resume ID",
		Short: "Continue a paused session",
		Long: `Continue a paused session. Suspended steps continue with their conversations and
files.

Without an address, resume joins the local stack; it runs no steps itself.`,
		Example: `  conclave resume 20261121-153012-k3f9
  conclave resume 20261121-153012-k3f9 && conclave watch 20261121-153012-k3f9`,
	}, drive.ResumeSignal)
}

func (c commands) finish() *cobra.Command {
	return c.update(&cobra.Command{
		Use:   "finish ID",
		Short: "Decide a session now, with the answers so far",
		Long: `Ask a session, even a paused or parked one, to decide now: running steps are ended,
and the answer with the most fresh votes wins. Without any answer the session fails.
To end a session without a decision, cancel it.

Without an address, finish joins the local stack; it runs no steps.`,
		Example: `  conclave finish 20261121-153012-k3f9
  conclave finish 20261121-153012-k3f9 && conclave result --wait 20261121-153012-k3f9`,
	}, drive.FinishSignal)
}

func (c commands) retry() *cobra.Command {
	agent := ""
	cmd := c.command(&cobra.Command{
		Use:   "retry ID",
		Short: "Run failed steps again, also of an ended session",
		Long: `Run the failed steps of all agents again, or with --agent that of one. Model replies
that were paid for are kept.

A session that has ended without an answer, because it failed or was cancelled,
terminated or timed out by Temporal, continues in a new run under the same ID, with
its answers, votes and messages and the steps that were running. So does a session
that is undecided: without a failed agent everybody votes again. A session that has
decided is left as it is.

In a run of a pipeline, parked or ended, the failed step is run again. A scenario run
that has ended continues from the first step that did not pass; its ID can be written
as SLUG/RUN_ID. ` + "`conclave scenario watch DIR SLUG`" + ` updates its files in the project's
directory.

Without an address, retry joins the local stack; it runs no steps itself.`,
		Example: `  conclave retry 20261121-153012-k3f9
  conclave retry 20261121-153012-k3f9 --agent agent_b`,
	}, false, func(ctx context.Context, conn *hall.Connection, run Run) error {
		u, err := Request{Verb: drive.RetrySignal, Agent: agent}.update()
		if err != nil {
			return err
		}
		return deliver(ctx, conn, run, u)
	})
	cmd.Flags().StringVar(&agent, "agent", "", "retry only the agent `ID`")
	return cmd
}

func (c commands) say() *cobra.Command {
	agent := ""
	cmd := &cobra.Command{
		Use:   "say ID TEXT",
		Short: "A human message to all agents, or one with --agent",
		Long: `Send a message to the agents of a running session. Running steps read it between two
model calls, other agents at their next step; votes that were cast without it are
cast again. The message stays on record. A message to an agent that takes no further
step is refused. A session that has ended undecided continues with the message in a
new run under the same ID. In a run of a pipeline, the running step
and all later ones read it; in a run of a scenario, the running step alone, or the
next one if none is running.

Without an address, say joins the local stack; it runs no steps.`,
		Example: `  conclave say 20261121-153012-k3f9 "The budget is 2000 euros."
  conclave say 20261121-153012-k3f9 "Check the licence, too." --agent agent_b`,
		Args: hall.Arguments("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := Request{Verb: drive.SaySignal, Agent: agent, Text: args[1]}.update()
			if err != nil {
				return err
			}
			return c.with(cmd.Context(), args[0], false, func(conn *hall.Connection, run Run) error { return deliver(cmd.Context(), conn, run, u) })
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "send it only to the agent `ID`")
	return cmd
}
