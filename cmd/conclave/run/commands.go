package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/workflows"
)

// Offer serves the pages of a connection's runs while a command follows one of them.
type Offer func(conn *cli.Connection, kinds ...*Kind) (stop func())

// commands implements the commands that take the ID of a run of any kind.
type commands struct {
	cli   *cli.CLI
	kinds []*Kind
	offer Offer
}

// Commands returns the commands that take the ID of a run of any of the kinds.
func Commands(cli *cli.CLI, kinds []*Kind, offer Offer) []*cobra.Command {
	c := commands{cli: cli, kinds: kinds, offer: offer}
	all := []*cobra.Command{
		c.watchCommand(), c.statusCommand(), c.resultCommand(), c.sayCommand(), c.pauseCommand(), c.resumeCommand(), c.cancelCommand(), c.retryCommand(),
		c.replyCommand(), c.approveCommand(workflows.ApproveSignal, "Allow a call, or approve a step"), c.approveCommand(denyVerb, "Refuse a call, or deny a step"),
	}
	for _, cmd := range all {
		cmd.Long += "\n\nID is that of a session or a pipeline run, or SLUG/RUN_ID of a scenario's run."
	}
	return append(all, c.finishCommand(), c.inboxCommand())
}

// withRun finds the run with an ID and calls use while connected to it. On a local stack a worker
// of this process answers queries meanwhile, and if runSteps is set it also runs the steps of
// an open run.
func (c commands) withRun(ctx context.Context, id string, runSteps bool, use func(*cli.Connection, Run) error) error {
	t, err := c.cli.Target()
	if err != nil {
		return err
	}
	return c.cli.With(ctx, t, func(conn *cli.Connection) error {
		run, err := findRun(ctx, conn, c.kinds, id)
		if err != nil {
			return err
		}
		var stop func()
		if runSteps && run.Running() {
			stop, err = teams.RunWorker(conn, nil, run.Workflow)
		} else {
			stop, err = teams.RunObserver(conn)
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
func Observe(ctx context.Context, cli *cli.CLI, kind *Kind, id string, use func(*cli.Connection, Run) error) error {
	return commands{cli: cli, kinds: []*Kind{kind}}.withRun(ctx, id, false, use)
}

func (c commands) takingID(cmd *cobra.Command, runSteps bool, use func(context.Context, *cli.Connection, Run) error) *cobra.Command {
	cmd.Args = cli.Arguments("ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withRun(cmd.Context(), args[0], runSteps, func(conn *cli.Connection, run Run) error { return use(cmd.Context(), conn, run) })
	}
	return cmd
}

func (c commands) sendingRequest(cmd *cobra.Command, r *Request) *cobra.Command {
	return c.takingID(cmd, false, func(ctx context.Context, conn *cli.Connection, run Run) error {
		u, err := r.asUpdate()
		if err != nil {
			return err
		}
		return deliverUpdate(ctx, conn, run, u)
	})
}

func (c commands) watchCommand() *cobra.Command {
	cmd := c.takingID(&cobra.Command{
		Use:   "watch ID",
		Short: "Follow a session live",
		Long: `Follow a session live and print its answer at the end. Ctrl-C stops watching and
leaves the session as it is.

Without an address, watch joins the local stack as a worker, so that an
unfinished session continues.`,
		Example: `  conclave watch 20261121-153012-k3f9
  conclave watch --automation 20261121-153012-k3f9 | tail -n 1 | jq .winner`,
	}, true, func(ctx context.Context, conn *cli.Connection, run Run) error {
		if !conn.Scripted() {
			if run.Running() {
				defer c.offer(conn, c.kinds...)()
			}
			printLinks(conn, run)
		}
		return run.Kind.Watch(ctx, conn, run)
	})
	teams.WorkerConfigFlag(c.cli, cmd.Flags())
	return cmd
}

func (c commands) statusCommand() *cobra.Command {
	return c.takingID(&cobra.Command{
		Use: "status ID", SuggestFor: []string{"show", "describe", "info", "inspect"},
		Short: "Show the state of a session",
		Long: `Show the state of a session, running or ended: its agents, the votes, stale votes,
the cost, and why a session waits for a person. With --json it prints the whole
coordination state. It never runs a step.`,
		Example: `  conclave status 20261121-153012-k3f9
  conclave status --json 20261121-153012-k3f9 | jq '.agents[] | {id, status}'`,
	}, false, func(ctx context.Context, conn *cli.Connection, run Run) error {
		err := run.Kind.PrintStatus(ctx, conn, run)
		if silent, ok := errors.AsType[*silenceError](err); ok {
			return printMemo(ctx, conn, run, silent.why)
		}
		return err
	})
}

func (c commands) resultCommand() *cobra.Command {
	wait := false
	cmd := c.takingID(&cobra.Command{
		Use:   "result ID",
		Short: "Print the final answer of a session",
		Long: `Print the final answer of a session, or with --json its whole result. It never
runs a step.

The exit code is that of the session's end; a session that has not ended has no
answer, which is exit code 2 without --wait.`,
		Example: `  conclave result 20261121-153012-k3f9
  conclave result --wait --json 20261121-153012-k3f9 | jq -r .answer
  conclave result --data 20261121-153012-k3f9 | jq .choice`,
	}, false, func(ctx context.Context, conn *cli.Connection, run Run) error {
		if conn.Data && run.Kind.Noun != "session" {
			return fmt.Errorf("%s has no data: --data is for sessions; leave it out", run)
		}
		if run.Running() && !wait {
			return notEnded(ctx, conn, run)
		}
		idle := run.Running() && conn.WarnIdle(ctx, run.queueName(conn))
		_, err := awaitNoting(ctx, conn, run, func(ctx context.Context) (any, error) { return nil, run.Kind.PrintEnd(ctx, conn, run) }, func(why string, _ bool) error {
			if !idle {
				conn.Infof("%s", why)
			}
			return nil
		})
		return err
	})
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the session has ended")
	cmd.Flags().BoolVar(&c.cli.Data, "data", false, "print the data of an answer with a schema, and nothing else, as JSON")
	return cmd
}

// notEnded returns the error for a run that is still open. For programs it also prints the running
// result.
func notEnded(ctx context.Context, conn *cli.Connection, run Run) error {
	if conn.Scripted() {
		if err := conn.PrintJSON(run.Kind.OpenResult(ctx, conn, run)); err != nil {
			return err
		}
	}
	switch run.waiting {
	case workflows.Parked:
		return cli.Exitf(cli.ExitNoAnswer, "%s is parked and has no result yet: fix the cause that `%s` names, then `%s` continues it",
			run, conn.CommandLine("status", run.Name()), conn.CommandLine("retry", run.Name()))
	case workflows.Waiting:
		return cli.Exitf(cli.ExitNoAnswer, "%s waits for a person and has no result yet; `%s` shows for what", run, conn.CommandLine("status", run.Name()))
	case workflows.Paused:
		return cli.Exitf(cli.ExitNoAnswer, "%s is paused and has no result yet; `%s` resumes it", run, conn.CommandLine("resume", run.Name()))
	}
	return cli.Exitf(cli.ExitNoAnswer, "%s is still running; wait for it with `%s`, or follow it with `%s`",
		run, conn.CommandLine("result --wait", run.Name()), conn.CommandLine("watch", run.Name()))
}

func (c commands) pauseCommand() *cobra.Command {
	return c.sendingRequest(&cobra.Command{
		Use:   "pause ID",
		Short: "Suspend a session until it is resumed",
		Long: `Suspend a session: running steps are suspended, no step is started, and its clock
stops. Nothing is lost; resume continues where it stopped.

Without an address, pause joins the local stack; it runs no steps.`,
		Example: `  conclave pause 20261121-153012-k3f9
  conclave resume 20261121-153012-k3f9`,
	}, &Request{Verb: workflows.PauseSignal})
}

func (c commands) resumeCommand() *cobra.Command {
	return c.sendingRequest(&cobra.Command{
		Use:   "resume ID",
		Short: "Continue a paused session",
		Long: `Continue a paused session. Suspended steps continue with their conversations and
files.

Without an address, resume joins the local stack; it runs no steps itself.`,
		Example: `  conclave resume 20261121-153012-k3f9
  conclave resume 20261121-153012-k3f9 && conclave watch 20261121-153012-k3f9`,
	}, &Request{Verb: workflows.ResumeSignal})
}

func (c commands) finishCommand() *cobra.Command {
	return c.sendingRequest(&cobra.Command{
		Use:   "finish ID",
		Short: "Decide a session now, with the answers so far",
		Long: `Ask a session, even a paused or parked one, to decide now: running steps are ended,
and the answer with the most fresh votes wins. Without any answer the session fails.
To end a session without a decision, cancel it.

Without an address, finish joins the local stack; it runs no steps.`,
		Example: `  conclave finish 20261121-153012-k3f9
  conclave finish 20261121-153012-k3f9 && conclave result --wait 20261121-153012-k3f9`,
	}, &Request{Verb: workflows.FinishSignal})
}

func (c commands) retryCommand() *cobra.Command {
	r := &Request{Verb: workflows.RetrySignal}
	cmd := c.sendingRequest(&cobra.Command{
		Use:   "retry ID",
		Short: "Run failed steps again, also of an ended session",
		Long: `Run the failed steps of all agents again, or with --agent that of one. Model replies
that were paid for are kept.

A session that has ended without an answer, because it failed or was cancelled,
terminated or timed out by Temporal, continues in a new run under the same ID, with
its answers, votes and messages and the steps that were running. So does a session
that is undecided: without a failed agent everybody votes again. A session that has
decided is left as it is.

In a run of a pipeline, parked or ended, the failed steps are run again, or with --branch
that of one branch or item. A scenario run
that has ended continues from the first step that did not pass.
` + "`conclave scenario watch DIR SLUG`" + ` updates its files in the project's directory.

Without an address, retry joins the local stack; it runs no steps itself.`,
		Example: `  conclave retry 20261121-153012-k3f9
  conclave retry 20261121-153012-k3f9 --agent agent_b
  conclave retry 20261121-153012-k3f9 --branch each/12`,
	}, r)
	cmd.Flags().StringVar(&r.Agent, "agent", "", "retry only the agent `ID`")
	cmd.Flags().StringVar(&r.Branch, "branch", "", "retry only the branch or item at `PATH` of a pipeline's run")
	return cmd
}

func (c commands) sayCommand() *cobra.Command {
	r := &Request{Verb: workflows.SaySignal}
	cmd := &cobra.Command{
		Use:   "say ID TEXT",
		Short: "Send a message to all agents, or to one with --agent",
		Long: `Send a message to the agents of a running session. Running steps read it between two
model calls, other agents at their next step; votes that were cast without it are
cast again. The message stays on record. A message to an agent that takes no further
step is refused. A session that has ended undecided continues with the message in a
new run under the same ID. In a run of a pipeline, the running step
and all later ones read it, or with --branch those of one branch; in a run of a scenario, the running step alone, or the
next one if none is running.

Without an address, say joins the local stack; it runs no steps.`,
		Example: `  conclave say 20261121-153012-k3f9 "The budget is 2000 euros."
  conclave say 20261121-153012-k3f9 "Check the licence, too." --agent agent_b`,
		Args: cli.Arguments("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Text = args[1]
			u, err := r.asUpdate()
			if err != nil {
				return err
			}
			return c.withRun(cmd.Context(), args[0], false, func(conn *cli.Connection, run Run) error { return deliverUpdate(cmd.Context(), conn, run, u) })
		},
	}
	cmd.Flags().StringVar(&r.Agent, "agent", "", "send it only to the agent `ID`")
	cmd.Flags().StringVar(&r.Branch, "branch", "", "send it only to the branch or item at `PATH` of a pipeline's run")
	return cmd
}

func (c commands) cancelCommand() *cobra.Command {
	return c.takingID(&cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a session",
		Long: `Ask a session to end without a decision, and wait until it has ended. Running steps
are ended; accepted answers and votes stay on record and can be pulled.

Without an address, cancel joins the local stack and records the end itself; it runs
no steps.`,
		Example: `  conclave cancel 20261121-153012-k3f9`,
	}, false, cancelRun)
}

func cancelRun(ctx context.Context, conn *cli.Connection, run Run) error {
	if !run.Running() && run.Status != workflows.Cancelled {
		return cli.Exitf(cli.ExitUsage, "%s has ended already (%s); `%s` prints the result", run, run.Status, conn.CommandLine("result", run.Name()))
	}
	if run.Running() {
		if err := Cancel(ctx, conn, run.Workflow); err != nil {
			return fmt.Errorf("cancel %s: %w", run, err)
		}
	}
	result, err := awaitNoting(ctx, conn, run, func(ctx context.Context) (any, error) { return run.Kind.AwaitEnd(ctx, conn, run) }, func(why string, _ bool) error {
		conn.Infof("%s was asked to end, and will end as soon as a worker answers: %s", run, why)
		return nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted: %s was asked to end but has not ended yet; `%s` shows its state", run, conn.CommandLine("status", run.Name()))
	case err != nil:
		return cli.Exitf(cli.ExitInterrupted, "%s was asked to end, but waiting for its end failed: %w; `%s` shows its state", run, err, conn.CommandLine("status", run.Name()))
	}
	if conn.Scripted() {
		return conn.PrintJSON(result)
	}
	conn.Infof("%s: %s", run, Refreshed(ctx, conn, run).Status)
	return nil
}

// Cancel requests the cancellation of a workflow. It succeeds if the workflow has ended.
func Cancel(ctx context.Context, conn *cli.Connection, workflow string) error {
	ctx, stop := context.WithTimeout(ctx, cli.ReachTimeout)
	defer stop()
	err := conn.Client.CancelWorkflow(ctx, workflow, "")
	if _, ended := errors.AsType[*serviceerror.NotFound](err); ended {
		return nil
	}
	return err
}
