package start

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

// prepared is an order whose input is checked, and that a connection completes.
type prepared struct {
	target cli.Target
	worker *teams.Worker
	order  func(context.Context, *cli.Connection) (runs.Order, error)
}

// scheduleFlags are the flags of schedule create.
type scheduleFlags struct {
	cron, overlap string
	catchup       time.Duration
}

// overlaps are the values of --overlap, which apply while the run before goes on.
var overlaps = map[string]enumspb.ScheduleOverlapPolicy{
	"skip": enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, "buffer": enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE, "allow": enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
}

// ScheduleCommand returns `conclave schedule`.
func ScheduleCommand(c *cli.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Start runs by the clock: create, list, show, pause, resume, trigger, delete",
		Long: `Start sessions and pipelines by the clock. A schedule is one of Temporal's:
` + "`temporal schedule`" + ` and the Web UI show it, too. Each run begins anew, with the files that its
source has then (` + "`--base source:NAME`" + `), and is named for its time: NAME-2026-11-24T07-00-00Z.

On a cluster schedules always fire; on this machine only while a stack with a worker runs, such
as ` + "`conclave dev`" + `.`,
		Example: `  conclave schedule create nightly --cron '0 2 * * *' -- run --team reviewers --base source:site "What changed since yesterday?"
  conclave schedule create weekly --cron 'CRON_TZ=Europe/Berlin 0 7 * * 1' --catchup 24h -- pipeline run report.yaml "The week"
  conclave schedule trigger nightly
  conclave schedule list`,
		RunE: cli.Group,
	}
	change := func(name, short, done string, do func(context.Context, client.ScheduleHandle) error) *cobra.Command {
		return scheduleVerb(c, name, short, func(ctx context.Context, conn *cli.Connection, h client.ScheduleHandle) error {
			return reportSchedule(conn, h.GetID(), done, do(ctx, h))
		})
	}
	cmd.AddCommand(createScheduleCommand(c), listSchedulesCommand(c),
		scheduleVerb(c, "show", "Show a schedule and its newest runs", showSchedule),
		change("pause", "Suspend a schedule: it starts nothing until it is resumed", "is paused", func(ctx context.Context, h client.ScheduleHandle) error {
			return h.Pause(ctx, client.SchedulePauseOptions{})
		}),
		change("resume", "Continue a paused schedule", "goes on", func(ctx context.Context, h client.ScheduleHandle) error {
			return h.Unpause(ctx, client.ScheduleUnpauseOptions{})
		}),
		scheduleVerb(c, "trigger", "Start a run of a schedule now, and print its ID", triggerSchedule),
		change("delete", "Remove a schedule; its runs stay", "is deleted", func(ctx context.Context, h client.ScheduleHandle) error { return h.Delete(ctx) }),
	)
	return cmd
}

func createScheduleCommand(c *cli.CLI) *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "create NAME --cron EXPR [flags] -- run|pipeline run …",
		Short: "Make a schedule that starts a session or a pipeline",
		Long: `Make the schedule NAME. What follows -- is the command line of run or pipeline run, whose workflow it
starts each time. Directories of this machine would stay as they are now, so --base and --context
are refused: define a source in the worker's configuration, and give --base source:NAME.

EXPR is a cron expression in UTC, as in '0 7 * * 1-5', or with a zone, as in 'CRON_TZ=Europe/Berlin 0 7 * * 1-5'.`,
		Example: `  conclave schedule create nightly --cron '0 2 * * *' -- run --team reviewers --base source:site "What changed since yesterday?"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at != 1 || len(args) < 2 {
				return fmt.Errorf("create takes NAME and, after --, the command that it starts, as in `conclave schedule create nightly --cron '0 2 * * *' -- run \"…\"`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args[0]); err != nil {
				return err
			}
			create := func(ctx context.Context, p prepared) error { return createSchedule(ctx, c, f, args[0], p) }
			action := runAction(c, create)
			line := args[1:]
			switch {
			case line[0] == "run", line[0] == "start":
			case line[0] == "pipeline" && len(line) > 1 && line[1] == "run":
				action, line = pipelineAction(c, create), line[1:]
			default:
				return fmt.Errorf("schedule %.80q: a schedule starts run or pipeline run", line[0])
			}
			action.SetArgs(line[1:])
			return action.ExecuteContext(cmd.Context())
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.cron, "cron", "", "when it starts runs: the cron `EXPR`, in UTC unless it names a zone")
	set.StringVar(&f.overlap, "overlap", "skip", "while the run before goes on: `skip` this one, buffer one, or allow both")
	set.DurationVar(&f.catchup, "catchup", time.Hour, "start a run that is up to `DURATION` late, because nothing ran here, else not at all")
	return cmd
}

func (f scheduleFlags) check(name string) error {
	const longest = 100 // leaves room for the time in the ID of a session
	if err := cli.CheckRunID(name); err != nil || len(name) > longest {
		return fmt.Errorf("name a schedule with up to %d letters, digits, '.', '_' and '-', not %q", longest, text.Truncate(name, cli.MaxEcho))
	}
	if f.cron == "" {
		return errors.New("--cron is missing; it takes an expression such as '0 2 * * *'")
	}
	if _, known := overlaps[f.overlap]; !known {
		return fmt.Errorf("--overlap %q: it takes skip, buffer or allow", text.Truncate(f.overlap, cli.MaxEcho))
	}
	if f.catchup < 10*time.Second {
		return errors.New("--catchup takes at least 10s")
	}
	return nil
}

// runAction returns the command run of a schedule: with the flags of start.
func runAction(c *cli.CLI, create func(context.Context, prepared) error) *cobra.Command {
	var f sessionFlags
	cmd := &cobra.Command{Use: "run"}
	f.addTo(c, cmd)
	return completeAction(c, cmd, f.query, &f.material, &f.id, create, func(ctx context.Context, _ []string, query string) (prepared, string, error) {
		return prepareSession(ctx, c, f, query)
	})
}

func pipelineAction(c *cli.CLI, create func(context.Context, prepared) error) *cobra.Command {
	var f pipelineFlags
	cmd := &cobra.Command{Use: "run"}
	f.addTo(c, cmd)
	return completeAction(c, cmd, f.request, &f.material, &f.id, create, func(ctx context.Context, args []string, request string) (prepared, string, error) {
		return preparePipelineRun(ctx, c, f, args[0], request)
	})
}

func completeAction(c *cli.CLI, cmd *cobra.Command, query *cli.Query, m *inputs.Flags, id *string, create func(context.Context, prepared) error,
	prepare func(context.Context, []string, string) (prepared, string, error),
) *cobra.Command {
	cmd.Flags().StringVar(&c.Config, "config", c.Config, "")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		asked, err := query.Read(cmd.Context(), args)
		if err == nil {
			err = refuseFixed(*m, *id, cmd.Flags())
		}
		if err != nil {
			return err
		}
		p, _, err := prepare(cmd.Context(), args, asked)
		if err != nil {
			return err
		}
		return create(cmd.Context(), p)
	}
	return cmd
}

// refuseFixed refuses flags whose files or ID would be the same in every run of a schedule.
func refuseFixed(m inputs.Flags, id string, set *pflag.FlagSet) error {
	if fixed := m.Fixed(); fixed != "" {
		return fmt.Errorf("%s: every run of a schedule would have the files of now; define a source in the worker's configuration (sources), and give --base source:NAME", fixed)
	}
	if set.Changed("checks") {
		return errors.New("--checks: every run of a schedule would have the files of now; leave it out, and give the team checks of its own")
	}
	if id != "" {
		return errors.New("--session-id: every run of a schedule has an ID of its own, of its name and time; leave it out")
	}
	return nil
}

func createSchedule(ctx context.Context, c *cli.CLI, f scheduleFlags, name string, p prepared) error {
	return c.With(ctx, p.target, func(conn *cli.Connection) error {
		err := conn.CheckBucket(ctx)
		if err != nil {
			return err
		}
		o, err := p.order(ctx, conn)
		if err != nil {
			return err
		}
		memo := map[string]any{workflows.MemoQuery: text.Truncate(o.Query, cli.MaxEcho), "cron": f.cron}
		action := &client.ScheduleWorkflowAction{ID: name, Workflow: o.Kind.Workflow, Args: []any{o.Input}, TaskQueue: conn.Queue, StaticSummary: text.Truncate(cli.Line(o.Query), 400)}
		if o.Team != "" {
			action.Memo = map[string]any{workflows.MemoTeam: o.Team}
		}
		ctx, cancel := context.WithTimeout(ctx, cli.ReachTimeout)
		defer cancel()
		_, err = conn.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{
			ID: name, Spec: client.ScheduleSpec{CronExpressions: []string{f.cron}}, Action: action, Overlap: overlaps[f.overlap], CatchupWindow: f.catchup, Memo: memo,
		})
		if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return cli.Exitf(cli.ExitUsage, "create the schedule %s: there is one of that name; choose another, or `%s` first", name, conn.CommandLine("schedule delete", name))
		}
		if invalid, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok {
			return cli.Exitf(cli.ExitUsage, "create the schedule %s: %s; --cron takes an expression such as '0 2 * * *'", name, invalid.Message)
		}
		return reportSchedule(conn, name, "starts runs at "+f.cron, err)
	})
}

// reportSchedule prints a change of a schedule.
func reportSchedule(conn *cli.Connection, name, change string, err error) error {
	switch {
	case err != nil:
		return err
	case conn.Scripted():
		return conn.PrintJSON(map[string]string{"name": name})
	}
	conn.Infof("schedule %s %s%s", name, change, whileRunning(conn))
	return nil
}

func whileRunning(conn *cli.Connection) string {
	if conn.Cluster {
		return ""
	}
	return "; here schedules fire only while a stack with a worker runs, such as `conclave dev`"
}

// scheduleVerb returns a command for one schedule.
func scheduleVerb(c *cli.CLI, name, short string, do func(context.Context, *cli.Connection, client.ScheduleHandle) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Long: short + ".", Example: "  conclave schedule " + name + " nightly", Args: cli.Arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := c.Target()
			if err != nil {
				return err
			}
			return c.With(cmd.Context(), t, func(conn *cli.Connection) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), 2*cli.ReachTimeout)
				defer cancel()
				err := do(ctx, conn, conn.Client.ScheduleClient().GetHandle(ctx, args[0]))
				if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
					return cli.Exitf(cli.ExitUsage, "there is no schedule %s %s; `%s` lists them", text.ShellQuote(args[0]), conn.Target, conn.CommandLine("schedule list"))
				}
				return err
			})
		},
	}
}

// shownSchedule is a schedule in JSON.
type shownSchedule struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind"` // session or pipeline
	Cron   string     `json:"cron"`
	Query  string     `json:"query"`
	Paused bool       `json:"paused"`
	Next   *time.Time `json:"next"` // null while it is paused
	Runs   []string   `json:"runs"` // IDs of the newest runs, oldest first
}

func readSchedule(ctx context.Context, h client.ScheduleHandle) (s shownSchedule, err error) {
	d, err := h.Describe(ctx)
	if err != nil {
		return s, err
	}
	s = shownSchedule{Name: h.GetID(), Cron: runs.Memo(d.Memo, "cron", ""), Query: runs.Memo(d.Memo, workflows.MemoQuery, ""), Paused: d.Schedule.State.Paused, Runs: []string{}}
	if action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction); ok {
		s.Kind = strings.ToLower(fmt.Sprint(action.Workflow))
	}
	if next := d.Info.NextActionTimes; len(next) > 0 && !s.Paused {
		s.Next = &next[0]
	}
	for _, r := range d.Info.RecentActions {
		if r.StartWorkflowResult != nil {
			s.Runs = append(s.Runs, artifact.SessionIDOf(r.StartWorkflowResult.WorkflowID))
		}
	}
	return s, nil
}

func listSchedulesCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List schedules of sessions and pipelines", Long: "List the schedules that start sessions and pipelines.", Example: "  conclave schedule list --json", Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := c.Target()
			if err != nil {
				return err
			}
			return c.With(cmd.Context(), t, func(conn *cli.Connection) error { return listSchedules(cmd.Context(), conn) })
		},
	}
}

func listSchedules(ctx context.Context, conn *cli.Connection) error {
	all := []shownSchedule{}
	found, err := conn.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	for err == nil && found.HasNext() {
		var e *client.ScheduleListEntry
		if e, err = found.Next(); err == nil && slices.Contains([]string{sessionflow.Type, pipelineflow.Type}, e.WorkflowType.Name) {
			if s, err := readSchedule(ctx, conn.Client.ScheduleClient().GetHandle(ctx, e.ID)); err == nil { // else it was deleted just now
				all = append(all, s)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("list the schedules %s: %w", conn.Target, err)
	}
	slices.SortFunc(all, func(a, b shownSchedule) int { return strings.Compare(a.Name, b.Name) })
	if conn.Scripted() {
		return conn.PrintJSON(all)
	}
	if len(all) == 0 {
		conn.Infof("no schedules %s", conn.Target)
		return nil
	}
	return printSchedules(conn, all...)
}

func printSchedules(conn *cli.Connection, all ...shownSchedule) error {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCHEDULE\tCRON\tNEXT\tLAST RUN\tQUERY")
	for _, s := range all {
		next, last := "paused", "–"
		if s.Next != nil {
			next = s.Next.Local().Format("2006-01-02 15:04")
		}
		if len(s.Runs) > 0 {
			last = s.Runs[len(s.Runs)-1]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.Cron, next, last, text.OneLine(s.Query))
	}
	_ = w.Flush() // to memory
	if note := whileRunning(conn); note != "" {
		conn.Infof("%s", strings.TrimPrefix(note, "; "))
	}
	return conn.Print(text.Terminal(table.String()))
}

func showSchedule(ctx context.Context, conn *cli.Connection, h client.ScheduleHandle) error {
	s, err := readSchedule(ctx, h)
	switch {
	case err != nil:
		return err
	case conn.Scripted():
		return conn.PrintJSON(s)
	}
	return printSchedules(conn, s)
}

// triggerSchedule starts a run, and waits until the server names it.
func triggerSchedule(ctx context.Context, conn *cli.Connection, h client.ScheduleHandle) error {
	before, err := h.Describe(ctx)
	if err == nil {
		err = h.Trigger(ctx, client.ScheduleTriggerOptions{})
	}
	for err == nil {
		var now *client.ScheduleDescription
		if now, err = h.Describe(ctx); err != nil {
			break
		}
		recent := now.Info.RecentActions
		switch {
		case now.Info.NumActionsSkippedOverlap > before.Info.NumActionsSkippedOverlap:
			return cli.Exitf(cli.ExitNoAnswer, "trigger %s: the run before goes on, and --overlap is skip; nothing was started", h.GetID())
		case now.Info.NumActions > before.Info.NumActions && len(recent) > 0 && recent[len(recent)-1].StartWorkflowResult != nil:
			id := artifact.SessionIDOf(recent[len(recent)-1].StartWorkflowResult.WorkflowID)
			if conn.Scripted() {
				return conn.PrintJSON(map[string]string{"name": h.GetID(), "session_id": id})
			}
			return conn.Print(id + "\n")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("trigger %s: it was asked for, but no run has started yet; `%s` shows it when it has", h.GetID(), conn.CommandLine("schedule show", h.GetID()))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return err
}
