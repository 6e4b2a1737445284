package start

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/outputs"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/config"
	"conclave/engine/llm"
	"conclave/workflows"
	sessionflow "conclave/workflows/session"
)

// Commands returns `conclave run`, `conclave start` and `conclave list`.
func Commands(c *cli.CLI) []*cobra.Command {
	return []*cobra.Command{runSessionCommand(c), startSessionCommand(c), listSessionsCommand(c)}
}

func runSessionCommand(c *cli.CLI) *cobra.Command {
	var f sessionFlags
	cmd := &cobra.Command{
		Use:   "run [flags] QUERY",
		Short: "Take QUERY to a decision and print the answer",
		Long: `Take QUERY to a decision and print the answer.

Without an address the session runs on this machine, on an embedded Temporal
server and S3 store with a worker in this process. Ctrl-C stops watching: the
session is kept, and continues with the next run, watch, dev or worker on the same
data directory. With an address the session is started on that cluster and
followed.

--model names the team's models without a file: one, of which it has three members or
--agents, or a list with a member each. What stands before the first colon is a kind, such
as anthropic or ollama, if there is such a kind, and on a cluster one of its providers; a
model without a kind is openai's, or that of the only service whose key is set.

--continue starts a session that continues the conversation of a decided one: its
agents are shown the earlier questions and answers and start from the files of its decision.
Limits, budget and labels start anew.

Exit codes: 0 decided, 1 wrong usage or configuration and nothing started,
2 no answer, undecided (act_when), or parked without a terminal (it stays open),
3 the session's time ran out (the best answer is printed), 4 interrupted.`,
		Example: `  conclave run --offline "Tabs or spaces?"
  conclave run --model anthropic:claude-sonnet-4-5 "Tabs or spaces?"
  conclave run --model openai:gpt-5.2,gemini:gemini-3-pro,ollama:llama3.2:3b "Tabs or spaces?"
  conclave run --config team.yaml "Design a rate limiter for our API"
  conclave run --query-file question.md --output-file answer.md
  conclave run - < question.md
  conclave run --worker-config worker.yaml --team reviewers "Is this release ready?"
  conclave run --base . --context ~/handbook=handbook "Mend the failing tests"
  conclave run --config team.yaml --checks hidden-tests "Write add.sh, which adds its arguments"
  conclave run --schema decision.json "Tabs or spaces?"
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
			f.here = true
			return runSession(cmd.Context(), c, f, query)
		},
	}
	f.addTo(c, cmd)
	cmd.Flags().BoolVar(&f.apply, "apply", false, "at the end show what the answer changed of --base, and ask whether to apply it there")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --apply: apply the change without a question")
	cmd.Flags().BoolVar(&f.open, "open", false, "open the page of the session in a browser")
	cmd.Flags().StringVar(&f.output, "output-file", "", "write the answer's text to `FILE`, too")
	teams.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

func startSessionCommand(c *cli.CLI) *cobra.Command {
	var f sessionFlags
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
			return startSession(cmd.Context(), c, f, query)
		},
	}
	f.addTo(c, cmd)
	return cmd
}

func listSessionsCommand(c *cli.CLI) *cobra.Command {
	list := &runs.List{Kind: Kind(), Titles: [2]string{"SESSION", "QUERY"}, Teams: true}
	return list.Add(c, &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Long: `List the newest sessions of the local data directory, or of a cluster's namespace,
with their duration and cost, or tokens if the price is unknown. Sessions that wait
for a person are paused or parked. Sessions that a pipeline or an evaluation has started
are listed only with --all or --kind. One that continues another session names it. list
never runs a step.`,
		Example: `  conclave list
  conclave list --status failed,cancelled --since 7d
  conclave list --team reviewers --status failed
  conclave list --kind evaluation,pipeline_step
  conclave list --limit 0 --json | jq -r '.[] | select(.status == "running") | .session_id'`,
	})
}

func runSession(ctx context.Context, c *cli.CLI, f sessionFlags, query string) error {
	return withNew(ctx, c, f, query, func(conn *cli.Connection, o runs.Order, w *teams.Worker) error {
		err := runs.Watch(ctx, conn, o, w)
		if code := cli.ExitCode(err); f.output != "" && (code == cli.ExitOK || code == cli.ExitTimeout) {
			if err := writeAnswer(ctx, conn, o.ID, f.output); err != nil {
				return err
			}
		}
		switch code := cli.ExitCode(err); {
		case f.apply && err == nil:
			err = offerApply(ctx, conn, o.ID, f.yes)
		case f.material.HasBase() && (code == cli.ExitOK || code == cli.ExitTimeout):
			outputs.PrintChanged(ctx, conn, o.ID)
		}
		return err
	})
}

func startSession(ctx context.Context, c *cli.CLI, f sessionFlags, query string) error {
	return withNew(ctx, c, f, query, func(conn *cli.Connection, o runs.Order, _ *teams.Worker) error {
		if conn.Cluster {
			conn.WarnIdle(ctx, conn.Queue)
		}
		if c.Scripted() {
			return c.PrintJSON(sessionReporter{}.NewResult(runs.Run{ID: o.ID}, workflows.Running, nil))
		}
		if !conn.Cluster {
			c.Infof("%s; follow it with `%s`", conn.HowItContinues(), c.CommandLine("watch", o.ID))
		}
		if _, err := fmt.Fprintln(c.Stdout, o.ID); err != nil {
			return cli.Exitf(cli.ExitNoAnswer, "session %s has started, but its ID could not be printed: %w", o.ID, err)
		}
		return nil
	})
}

// withNew checks the input, starts the session and calls use. With invalid input it starts
// nothing.
func withNew(ctx context.Context, c *cli.CLI, f sessionFlags, query string, use func(*cli.Connection, runs.Order, *teams.Worker) error) error {
	p, id, err := prepareSession(ctx, c, f, query)
	if err != nil {
		return err
	}
	var offer runs.Offer
	if f.here {
		offer = web.Offer
	}
	return runs.Begin(ctx, c, p.target, offer, func(conn *cli.Connection) (runs.Order, error) { return p.order(ctx, conn) }, func(conn *cli.Connection, started runs.Order) error {
		if err := f.rememberBase(conn, id); err != nil {
			conn.Warnf("%v", err)
		}
		return use(conn, started, p.worker)
	})
}

// prepareSession checks the input of a session, and returns its order and its ID.
func prepareSession(ctx context.Context, c *cli.CLI, f sessionFlags, query string) (p prepared, id string, err error) {
	t, w, err := teams.Open(c)
	if err != nil {
		return p, "", err
	}
	o, err := newSessionOrder(c, t, w, f, query)
	if err != nil {
		return p, "", err
	}
	if err := f.material.Check(); err != nil {
		return p, "", err
	}
	if err := checkChecks(f.checks, o.team); err != nil {
		return p, "", err
	}
	if f.showChecks {
		if err := o.showChecks(f.checks); err != nil {
			return p, "", err
		}
	}
	if err := w.Serves(ctx, o.team); preventsStart(err, f.here) {
		return p, "", err
	}
	w.NoteShell(ctx, c, o.team)
	return prepared{t, w, func(ctx context.Context, conn *cli.Connection) (runs.Order, error) {
		if o.input.Continues != "" {
			if err := o.continueSession(ctx, conn, w, f.here); err != nil {
				return runs.Order{}, err
			}
		}
		err := o.storeInputs(ctx, conn, f)
		return o.asRunsOrder(f), err
	}}, o.id, nil
}

// preventsStart reports whether a missing requirement prevents a start. A missing sandbox
// always does. Missing providers, servers and keys matter only if this process runs
// the steps.
func preventsStart(err error, here bool) bool {
	return err != nil && (here || activities.Lacks(err, activities.NoSandbox))
}

// sessionFlags are the flags of run and start besides the common ones.
type sessionFlags struct {
	query              *cli.Query
	team, criteria, id string
	offline            bool
	continues          string
	output             string
	apply, yes, open   bool
	material           inputs.Flags
	checks, schema     string
	showChecks         bool
	here               bool // this process runs the steps
}

func (f *sessionFlags) addTo(c *cli.CLI, cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.query = cli.NewQuery(c, "QUERY", set)
	cmd.Args = f.query.Arguments()
	teams.ModelFlags(c, set)
	set.StringVar(&f.team, "team", "", "use the worker's team `NAME` instead of a configuration")
	set.StringVar(&f.criteria, "eval-criteria", "", "evaluation criteria `FILE` (JSON)")
	set.StringVar(&f.schema, "schema", "", "the answer is data of the JSON Schema in `FILE`, in place of the team's answer_schema")
	f.material.Add(set)
	teams.ShellFlags(c, set, "the agents")
	f.material.AddImages(set)
	set.StringVar(&f.checks, "checks", "", "run the checks in `DIR` against every answer: executable files and checks.yaml; needs orchestrator.ballot")
	set.BoolVar(&f.showChecks, "show-checks", false, "let the agents see the checks of --checks and their outcomes, as orchestrator.show_checks does")
	set.StringVar(&f.id, "session-id", "", "`ID` of the session (default a new one)")
	set.StringVar(&f.continues, "continue", "", "continue the conversation of the session `ID`, with its team unless another is named")
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
}

// sessionOrder is the validated input of a session.
type sessionOrder struct {
	id      string
	input   sessionflow.Input
	team    config.Team // the zero value if a cluster's worker has it
	source  string      // source of the team
	offline bool
}

func newSessionOrder(c *cli.CLI, t cli.Target, w *teams.Worker, f sessionFlags, query string) (sessionOrder, error) {
	o := sessionOrder{offline: f.offline, input: sessionflow.Input{Query: query, Continues: f.continues}}
	teams.PreferShell(c, f.material.HasBase())
	var err error
	if o.id, err = cli.ChooseRunID("--session-id", f.id); err != nil {
		return o, err
	}
	if o.input.EvalCriteria, err = teams.ReadCriteria(c, f.criteria); err != nil {
		return o, err
	}
	if f.schema != "" {
		if o.input.AnswerSchema, err = teams.ReadFile(f.schema); err == nil {
			_, err = llm.ReadDataSchema(o.input.AnswerSchema)
		}
		if err != nil {
			return o, fmt.Errorf("--schema %s: %w", f.schema, err)
		}
	}
	if err := teams.CheckFlags(c, f.team); err != nil {
		return o, err
	}
	switch {
	case f.continues != "" && f.team == "" && !c.NamesTeam():
		return o, teams.RefuseShell(c, "the team of session "+f.continues) // its team is known once the store is connected
	case f.team != "" && f.offline:
		return o, errors.New("--offline replaces the models of a configuration, not those of a worker's team; leave out --team")
	case t.Cluster:
		return o, o.chooseClusterTeam(c, f.team)
	}
	return o, o.chooseLocalTeam(c, t, w, f.team)
}

// chooseLocalTeam chooses a team of --worker-config, the default of the data directory, or
// the team of this invocation.
func (o *sessionOrder) chooseLocalTeam(c *cli.CLI, t cli.Target, w *teams.Worker, name string) (err error) {
	if name != "" || !c.NamesTeam() {
		of, source, found := w.Team(cmp.Or(name, activities.DefaultTeam))
		if found && o.offline {
			o.team, o.source = of.Offline(), source
			return nil
		}
		if found {
			o.team, o.source = of, source
			return errors.Join(teams.RefuseShell(c, source), w.Startable(of))
		}
	}
	if name != "" && name != activities.DefaultTeam {
		return fmt.Errorf("there is no team %q here, only %s; %q is that of dev or worker, else ./%s or the built-in team; give your own with --config FILE, or define it in the file of --worker-config",
			name, w.Known(), activities.DefaultTeam, teams.ProjectFile)
	}
	if name == activities.DefaultTeam {
		standard, found, err := teams.Default(t)
		if err != nil {
			return err
		}
		if found {
			o.team, o.source = standard, "the default of "+t.DataDir
			return errors.Join(teams.RefuseShell(c, o.source), w.Startable(standard))
		}
	}
	o.team, o.source, err = teams.Local(c, w, o.offline)
	return err
}

func (o *sessionOrder) chooseClusterTeam(c *cli.CLI, name string) error {
	if name != "" {
		o.input.Team, o.source = name, "the cluster's team "+name
		return teams.RefuseShell(c, o.source)
	}
	var err error
	if o.team, o.source, err = teams.Load(c, config.Cluster, o.offline); err != nil {
		return err
	}
	if o.input.Config, err = o.team.Canonical(); err != nil {
		return fmt.Errorf("encode the team of %s: %w", o.source, err)
	}
	return nil
}

func (o *sessionOrder) storeInputs(ctx context.Context, conn *cli.Connection, f sessionFlags) (err error) {
	if o.input.Material, err = f.material.Upload(ctx, conn); err != nil {
		return err
	}
	if o.input.Checks, err = uploadChecks(ctx, conn, f.checks); err != nil {
		return err
	}
	if !conn.Cluster {
		o.input.Team, err = teams.Registry(conn.Target).Register(o.team)
	}
	return err
}

func (o *sessionOrder) asRunsOrder(f sessionFlags) runs.Order {
	source := ""
	if len(o.team.Agents) > 0 {
		source = "team from " + o.source + ": " + teams.Describe(o.team)
	}
	var memo map[string]any
	if o.team.OfflineKind() == config.Recorded {
		memo = map[string]any{workflows.MemoRecorded: true}
	}
	return runs.Order{
		Kind: Kind(), ID: o.id, Query: o.input.Query, Source: source, Offline: o.offline || o.team.OfflineKind() != "", Memo: memo, Input: o.input, IDFlag: "--session-id",
		Continues: o.input.Continues, Team: cmp.Or(f.team, o.source), Open: f.open,
	}
}
