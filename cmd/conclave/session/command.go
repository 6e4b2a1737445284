package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/material"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/llm"
)

// Commands returns `conclave run`, `conclave start` and `conclave list`.
func Commands(c *hall.CLI) []*cobra.Command {
	return []*cobra.Command{runCommand(c), startCommand(c), listCommand(c)}
}

func runCommand(c *hall.CLI) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "run [flags] QUERY",
		Short: "Take QUERY to a decision and print the answer",
		Long: `Take QUERY to a decision and print the answer.

Without an address the session runs on this machine, on an embedded Temporal
server and S3 store with a worker in this process. Ctrl-C stops watching: the
session is kept, and continues with the next run, watch, dev or worker on the same
data directory. With an address the session is started on that cluster and
followed.

--continue starts a session that continues the conversation of a decided one: its
agents are shown the earlier questions and answers and start from the files of its decision.
Limits, budget and labels start anew.

Exit codes: 0 decided, 1 wrong usage or configuration and nothing started,
2 no answer, undecided (act_when), or parked without a terminal (it stays open),
3 the session's time ran out (the best answer is printed), 4 interrupted.`,
		Example: `  conclave run --offline "Tabs or spaces?"
  conclave run --config team.yaml "Design a rate limiter for our API"
  conclave run --query-file question.md --output-file answer.md
  conclave run - < question.md
  conclave run --worker-config worker.yaml --team reviewers "Is this release ready?"
  conclave run --base . --context ~/handbook=handbook "Mend the failing tests"
  conclave run --config team.yaml --checks hidden-tests "Write add.sh, which adds its arguments"
  conclave run --continue 20261121-153012-k3f9 "And for Go code?"
  conclave run --automation "Tabs or spaces?" | tail -n 1 | jq -r .answer
  conclave run --address temporal.example.com:7233 --bucket sessions "Tabs or spaces?"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := f.query.Read(cmd.Context(), args)
			if err == nil {
				err = errors.Join(checkOutput(f.output), f.checkApply(c))
			}
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, f, query)
		},
	}
	f.add(c, cmd)
	cmd.Flags().BoolVar(&f.apply, "apply", false, "at the end show what the answer changed of --base, and ask whether to apply it there")
	cmd.Flags().StringVar(&f.output, "output-file", "", "write the answer's text to `FILE`, too")
	team.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

func startCommand(c *hall.CLI) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "start [flags] QUERY",
		Short: "Start the session and print its ID",
		Long: `Start the session on a cluster and print its ID on stdout; its workers run it.

Without an address the session is kept in the data directory and continues
whenever a stack with a worker runs there: during run, watch, dev or worker.`,
		Example: `  id=$(conclave start --address temporal.example.com:7233 "Tabs or spaces?")
  conclave watch --address temporal.example.com:7233 "$id"
  conclave start --base ~/src/service "Mend the failing tests"
  conclave start --base . --checks ~/src/hidden-tests "Mend the failing tests"
  conclave start --team reviewers --session-id release-42 "Is this release ready?"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := f.query.Read(cmd.Context(), args)
			if err != nil {
				return err
			}
			return start(cmd.Context(), c, f, query)
		},
	}
	f.add(c, cmd)
	return cmd
}

// listed is a session in the JSON output of list.
type listed struct {
	SessionID string     `json:"session_id"`
	Kind      string     `json:"kind"` // session, or pipeline_step for one of a pipeline
	Status    string     `json:"status"`
	Query     string     `json:"query"` // shortened text
	CreatedAt time.Time  `json:"created_at"`
	Seconds   float64    `json:"duration_seconds"`
	Cost      *llm.Usage `json:"cost"` // null if it is unknown
	Continues string     `json:"continues,omitempty"`
}

func listCommand(c *hall.CLI) *cobra.Command {
	list := &runs.List{Kind: Kind(), Titles: [2]string{"SESSION", "QUERY"}, Teams: true, JSON: func(r runs.Listed) any {
		kind := "session"
		if r.Pipeline != "" {
			kind = "pipeline_step"
		}
		return listed{
			SessionID: r.ID, Kind: kind, Status: r.Shown(), Query: r.Query, CreatedAt: r.Started,
			Seconds: r.Seconds(), Cost: r.Usage, Continues: r.Continues,
		}
	}}
	return list.Add(c, &cobra.Command{
		Use:   "list",
		Short: "Sessions, newest first",
		Long: `List the newest sessions of the local data directory, or of a cluster's namespace,
with their duration and cost, or tokens if the price is unknown. Sessions that wait
for a person are paused or parked. A session that is a step of a pipeline says so; its
kind in JSON is pipeline_step. One that continues another session names it. list never
runs a step.`,
		Example: `  conclave list
  conclave list --status failed,cancelled --since 7d
  conclave list --team reviewers --status failed
  conclave list --limit 0 --json | jq -r '.[] | select(.status == "running") | .session_id'`,
	})
}

// run starts a session and follows it to its end.
func run(ctx context.Context, c *hall.CLI, f flags, query string) error {
	return withNew(ctx, c, f, query, true, func(conn *hall.Connection, o runs.Order, w *team.Worker) error {
		err := runs.Watch(ctx, conn, o, w)
		if code := hall.ExitCode(err); f.output != "" && (code == hall.ExitOK || code == hall.ExitTimeout) {
			if err := writeAnswer(ctx, conn, o.ID, f.output); err != nil {
				return err
			}
		}
		if f.apply && err == nil {
			err = offer(ctx, conn, o.ID)
		}
		return err
	})
}

// start starts a session and prints its ID.
func start(ctx context.Context, c *hall.CLI, f flags, query string) error {
	return withNew(ctx, c, f, query, false, func(conn *hall.Connection, o runs.Order, _ *team.Worker) error {
		if conn.Cluster {
			conn.WarnIdle(ctx, conn.Queue)
		}
		if c.Scripted() {
			return c.PrintJSON(running(runs.Run{ID: o.ID}))
		}
		if !conn.Cluster {
			c.Infof("it continues whenever a worker of this data directory runs; follow it with `%s`", c.CommandLine("watch", o.ID))
		}
		if _, err := fmt.Fprintln(c.Stdout, o.ID); err != nil {
			return hall.Exitf(hall.ExitNoAnswer, "session %s has started, but its ID could not be printed: %w", o.ID, err)
		}
		return nil
	})
}

// withNew checks the input, starts the session and calls use. With invalid input it starts
// nothing. here reports whether this process will run the steps.
func withNew(ctx context.Context, c *hall.CLI, f flags, query string, here bool, use func(*hall.Connection, runs.Order, *team.Worker) error) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	w, err := team.OpenWorker(c, t)
	if err != nil {
		return err
	}
	o, err := newOrder(c, t, w, f, query)
	if err != nil {
		return err
	}
	if err := f.material.Check(); err != nil {
		return err
	}
	if err := checkChecks(f.checks, o.team); err != nil {
		return err
	}
	if f.showChecks {
		if err := o.showChecks(f.checks); err != nil {
			return err
		}
	}
	if err := w.Serves(ctx, o.team); refuses(err, here) {
		return err
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		if o.input.Continues != "" {
			if err := o.proceed(ctx, conn, w, here); err != nil {
				return err
			}
		}
		if err := o.store(ctx, conn, f); err != nil {
			return err
		}
		started := o.run(f)
		if here {
			defer live.Offer(conn, started.Kind)()
		}
		if err := runs.Start(ctx, conn, started); err != nil {
			return err
		}
		if err := f.remember(conn, o.id); err != nil {
			conn.Warnf("%v", err)
		}
		return use(conn, started, w)
	})
}

// refuses reports whether a missing requirement prevents a start. A missing sandbox
// always does. Missing providers, servers and keys matter only if this process runs
// the steps.
func refuses(err error, here bool) bool {
	return err != nil && (here || activities.Lacks(err, activities.NoSandbox))
}

// flags are the flags of run and start besides the common ones.
type flags struct {
	query              *hall.Query
	team, criteria, id string
	offline            bool
	continues          string
	output             string
	apply              bool
	material           material.Flags
	checks             string
	showChecks         bool
}

func (f *flags) add(c *hall.CLI, cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.query = hall.NewQuery(c, "QUERY", set)
	cmd.Args = f.query.Arguments()
	set.StringVar(&f.team, "team", "", "use the worker's team `NAME` instead of a configuration")
	set.StringVar(&f.criteria, "eval-criteria", "", "evaluation criteria `FILE` (JSON)")
	f.material.Add(set)
	set.StringVar(&f.checks, "checks", "", "run the checks in `DIR` against every answer: executable files and checks.yaml; needs orchestrator.ballot")
	set.BoolVar(&f.showChecks, "show-checks", false, "let the agents see the checks of --checks and their outcomes, as orchestrator.show_checks does")
	set.StringVar(&f.id, "session-id", "", "`ID` of the session (default a new one)")
	set.StringVar(&f.continues, "continue", "", "continue the conversation of the session `ID`, with its team unless another is named")
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
}
