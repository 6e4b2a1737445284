package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"

	"conclave/cmd/conclave/cli"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/workflows"
	pipelineflow "conclave/workflows/pipeline"
	sessionflow "conclave/workflows/session"
)

// Question is an open question to a person, with the workflow that asks.
type Question struct {
	coordination.Question
	Workflow string `json:"-"`
	Pipeline string `json:"-"` // workflow ID of the pipeline run of which that is a step
}

// questionsIn returns the open questions in the memo of a workflow.
func questionsIn(m *commonpb.Memo, workflow, pipeline string) (open []Question) {
	var asked []coordination.Question
	_ = json.Unmarshal([]byte(Memo(m, workflows.MemoQuestions, "null")), &asked) // empty without any
	for _, q := range asked {
		open = append(open, Question{q, workflow, pipeline})
	}
	return open
}

// findQuestions returns the open questions of all runs, the oldest first. It needs one query and no worker.
func findQuestions(ctx context.Context, conn *cli.Connection) ([]Question, error) {
	query := fmt.Sprintf("WorkflowType IN ('%s', '%s') AND ExecutionStatus = 'Running'", sessionflow.Type, pipelineflow.Type)
	found, err := Executions(ctx, conn, query+fmt.Sprintf(" AND (%s = '%s' OR %[1]s IS NULL)", workflows.AttributeStatus, workflows.Waiting))
	if _, unknown := errors.AsType[*serviceerror.InvalidArgument](err); unknown { // the namespace has no such attribute
		found, err = Executions(ctx, conn, query)
	}
	if err != nil {
		return nil, fmt.Errorf("look for questions %s: %w", conn.Target, err)
	}
	var all []Question
	for _, e := range found {
		all = append(all, questionsIn(e.GetMemo(), e.GetExecution().GetWorkflowId(), e.GetParentExecution().GetWorkflowId())...)
	}
	slices.SortStableFunc(all, func(a, b Question) int { return a.Since.Compare(b.Since) })
	return all, nil
}

// answerCommand returns the command lines that answer a question.
func (q Question) answerCommand(c *cli.CLI) string {
	if q.TakesOption() {
		return "`" + c.CommandLine("reply", q.Workflow, q.QuestionID) + " --option N` or `" + c.CommandLine("deny", q.Workflow, q.QuestionID) + "`"
	}
	if q.QuestionKind == coordination.AskQuestion {
		return "`" + c.CommandLine("reply", q.Workflow, q.QuestionID) + " TEXT`"
	}
	return "`" + c.CommandLine("approve", q.Workflow, q.QuestionID) + "` or `" + c.CommandLine("deny", q.Workflow, q.QuestionID) + "`"
}

// isChoice reports whether an option can be chosen at the terminal, which shows the question whole.
func (q Question) isChoice() bool { return q.TakesOption() && q.Path == "" }

// describeQuestion returns a question in one line, without the arguments of a call.
func (q Question) describeQuestion() string {
	asked := cli.Line(q.Text)
	if q.Why != "" {
		asked += " · " + cli.Line(q.Why)
	}
	for i, o := range q.Options {
		asked += fmt.Sprintf(" [%d] %s", i+1, cli.Line(o))
	}
	return cli.Line(q.Agent) + " asks: " + asked
}

// QuestionHolds returns the open questions of a run as reasons why it waits.
func QuestionHolds(c *cli.CLI, run Run) (holds []cli.Hold) {
	for _, q := range run.Questions {
		why := q.describeQuestion()
		if q.Arguments != "" {
			why += " " + cli.Line(q.Arguments)
		}
		holds = append(holds, cli.Hold{Why: why, Release: q.answerCommand(c), Since: q.Since})
	}
	return holds
}

// inbox has the flags of `conclave inbox`.
type inbox struct{ watch, full bool }

func (c commands) inboxCommand() *cobra.Command {
	var flags inbox
	cmd := &cobra.Command{
		Use: "inbox", SuggestFor: []string{"questions", "approvals"},
		Short: "List what waits for a person, over all runs",
		Long: `List the questions and approvals that wait for a person, over all sessions and pipeline
runs, the oldest first. It asks the server alone and needs no worker.

What is too long for a list is shown with --full, which reads the store.`,
		Example: `  conclave inbox
  conclave inbox --watch
  conclave inbox --json | jq -r '.[].question_id'`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := c.cli.Target()
			if err != nil {
				return err
			}
			return c.cli.With(cmd.Context(), t, func(conn *cli.Connection) error { return flags.printOpen(cmd.Context(), conn) })
		},
	}
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "go on and print new ones as they come; with --json one object a line")
	cmd.Flags().BoolVar(&flags.full, "full", false, "show long questions and arguments in full")
	return cmd
}

// inboxInterval is the time between two looks of `inbox --watch`.
const inboxInterval = 2 * time.Second

func (i inbox) printOpen(ctx context.Context, conn *cli.Connection) error {
	shown := map[string]bool{}
	for {
		open, err := findQuestions(ctx, conn)
		if err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(q Question) bool { return shown[q.QuestionID] })
		for n := range open {
			shown[open[n].QuestionID] = true
			if i.full {
				open[n] = open[n].loadWhole(ctx, conn)
			}
		}
		if err := i.printAll(conn, open, len(shown) == 0); err != nil || !i.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(inboxInterval):
		}
	}
}

func (i inbox) printAll(conn *cli.Connection, open []Question, none bool) error {
	switch {
	case conn.Scripted() && i.watch:
		for _, q := range open {
			line, err := json.Marshal(q)
			if err != nil {
				return err
			}
			if err := conn.Print(string(line) + "\n"); err != nil {
				return err
			}
		}
		return nil
	case conn.Scripted():
		return conn.PrintJSON(append([]Question{}, open...))
	case none && !i.watch:
		conn.Infof("nothing waits for a person %s", conn.Target)
		return nil
	}
	for _, q := range open {
		lines := []string{fmt.Sprintf("%s  %s  %s, since %s", cli.Line(q.ID), q.QuestionID, q.QuestionKind, q.Since.UTC().Format(time.RFC3339)), "  " + q.describeQuestion()}
		switch {
		case q.Path != "":
			lines = append(lines, "  it is too long for this list: `"+conn.CommandLine("inbox --full")+"` shows the whole")
		case q.Arguments != "":
			lines = append(lines, "  "+cli.Line(q.Tool)+" "+cli.Line(q.Arguments))
		}
		if err := conn.Print(strings.Join(append(lines, "  "+q.answerCommand(conn.CLI)), "\n") + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// loadWhole returns the question as it is in the store, or unchanged if it cannot be read.
func (q Question) loadWhole(ctx context.Context, conn *cli.Connection) Question {
	if q.Path == "" || conn.Store == nil {
		return q
	}
	ctx, stop := context.WithTimeout(ctx, cli.ReachTimeout)
	defer stop()
	layout := artifact.InBucket(q.ID)
	if q.Kind == workflows.KindPipeline {
		layout = artifact.InPipeline(q.ID)
	}
	stored, err := artifact.ReadJSON[artifact.Question](ctx, conn.Store, layout.Question(q.QuestionID))
	if err != nil {
		return q
	}
	q.Path, q.Text, q.Why, q.Options, q.Arguments = "", stored.Text, stored.Why, append([]string{}, stored.Options...), stored.Arguments
	return q
}

func (c commands) replyCommand() *cobra.Command {
	r := &Request{Verb: workflows.ReplySignal}
	cmd := &cobra.Command{
		Use: "reply ID [QUESTION] TEXT", SuggestFor: []string{"answer"},
		Short: "Answer a question of an agent or a step",
		Long: `Answer a question that an agent, or a step of a pipeline, has asked a person: with a
text, or with one of its options. QUESTION can be left out if only one is open. The first answer counts; a
question that is closed is refused with what was decided.

Without an address, reply joins the local stack; it runs no steps.`,
		Example: `  conclave reply 20261121-153012-k3f9 "Use the staging database."
  conclave reply 20261121-153012-k3f9 --option 2`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Option == 0 && len(args) > 1 {
				r.Text, args = args[len(args)-1], args[:len(args)-1]
			}
			if r.Option == 0 && r.Text == "" || len(args) > 2 {
				return errors.New("give an answer: a TEXT, or one of the options with --option N")
			}
			return c.answerQuestion(cmd.Context(), args, *r)
		},
	}
	cmd.Flags().IntVar(&r.Option, "option", 0, "the `NUMBER` of an option, from 1")
	return cmd
}

func (c commands) approveCommand(verb, short string) *cobra.Command {
	r := &Request{Verb: verb}
	cmd := &cobra.Command{
		Use:   verb + " ID [QUESTION]",
		Short: short,
		Long: short + `, about which a session or a step of a pipeline asks. A call is
allowed or refused once: another call, or other arguments, are asked about anew. QUESTION
can be left out if only one is open.

Without an address, ` + verb + ` joins the local stack; it runs no steps.`,
		Example: "  conclave " + verb + " 20261121-153012-k3f9\n  conclave " + verb + " 20261121-153012-k3f9 --note 'as we agreed'",
		Args:    cobra.RangeArgs(1, 2),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.answerQuestion(cmd.Context(), args, *r) },
	}
	cmd.Flags().StringVar(&r.Note, "note", "", "a `TEXT` for the agent and the record")
	return cmd
}

// answerQuestion sends the answer to a question. args are the ID of a run and, if it is given, the question.
func (c commands) answerQuestion(ctx context.Context, args []string, r Request) error {
	if person, err := user.Current(); err == nil {
		r.By = person.Username
	}
	return c.withRun(ctx, args[0], false, func(conn *cli.Connection, run Run) error {
		open := run.Questions
		if len(args) > 1 {
			r.Question = args[1]
			open = slices.DeleteFunc(slices.Clone(open), func(q Question) bool { return q.QuestionID != r.Question })
		}
		switch {
		case len(open) == 1:
			r.Question, run = open[0].QuestionID, run.ofQuestion(open[0])
		case len(open) > 1:
			lines := []string{fmt.Sprintf("%s has %d open questions; name one of them", run, len(open))}
			for _, q := range open {
				lines = append(lines, "  "+q.QuestionID+"  "+q.describeQuestion())
			}
			return cli.Exitf(cli.ExitUsage, "%s", strings.Join(lines, "\n"))
		case r.Question == "" && run.Running():
			return cli.Exitf(cli.ExitUsage, "%s has no open question; `%s` lists those of all runs", run, conn.CommandLine("inbox"))
		}
		u, err := r.asUpdate()
		if err != nil {
			return err
		}
		return deliverUpdate(ctx, conn, run, u)
	})
}

// ofQuestion returns the run of the workflow that asks, which may be a step of r.
func (r Run) ofQuestion(q Question) Run {
	r.Workflow, r.ID = q.Workflow, cmp.Or(q.ID, r.ID)
	return r
}

// answerUpdate returns the update for an answer to a question.
func (r Request) answerUpdate() (Update, error) {
	if err := cli.CheckText("TEXT", r.Text+r.Note, coordination.MaxText, "shorten it"); err != nil {
		return Update{}, err
	}
	u := Update{Name: r.Verb, Action: r.Verb, Next: "watch", NeedsSteps: true, Accepted: "answered; it goes on, %s follows it"}
	if r.Verb == workflows.ReplySignal {
		u.Payload = workflows.Request{Question: r.Question, Text: r.Text, Option: r.Option, By: r.By}
		return u, nil
	}
	allow := r.Verb == workflows.ApproveSignal
	u.Name, u.Payload = workflows.ApproveSignal, workflows.Request{Question: r.Question, Allow: &allow, Note: r.Note, By: r.By}
	return u, nil
}

// denyVerb refuses a call about which a session asks.
const denyVerb = "deny"
