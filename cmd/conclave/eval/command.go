package eval

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/eval"
	"conclave/engine/eval/generate"
)

// Command returns `conclave eval`. Its arguments are the kinds for sessions and for pipeline runs.
func Command(c *hall.CLI, session, pipeline *runs.Kind) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Is the team worth its tokens? run, report, compare, gen",
		Long: `Ask a data set of questions in several ways, one of which is the team, and report
accuracy and tokens of each with intervals, the differences with exact p-values, how
well the team answers and judges, and one sentence on whether it is worth its tokens.`,
		Example: `  conclave eval gen --seed 7 > questions.jsonl
  conclave eval run questions.jsonl --config team.yaml
  conclave eval report 3f9a01bc
  conclave eval compare 3f9a01bc other-eval`,
		RunE: hall.Group,
	}
	cmd.AddCommand(runCommand(c, session, pipeline), reportCommand(c), compareCommand(c), genCommand(c))
	return cmd
}

// flags are the flags of eval run besides the common ones.
type flags struct {
	arms, scorer string
	epochs       int
	limit        int
	concurrency  int
	tokens       int64
	usd          float64
	id, out      string
	failUnder    string
	grader       string
	offline      bool
	fields       map[string]string // field of a question to that of the data
}

func runCommand(c *hall.CLI, session, pipeline *runs.Kind) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "run [flags] DATA.jsonl",
		Short: "Ask all questions in all arms, and report",
		Long: `Ask the questions of DATA.jsonl, one JSON object a line with the fields of inspect_ai's
Sample: id, input, target (a string or a list), choices, files, metadata, and scorer,
base, checks. Every question ends with the sentence "` + eval.Form + `".

Arms, a list of:
  single          one agent of the team, through the same step
  first-vote      the vote of the team's own first answers
  majority:K      the vote of K first answers
  majority:match  the same, with as many answers as the team's tokens for the question buy
  plain           a bare completion by the model of the first agent, without tools
  team            the team's decision
  team=FILE       the decision of another team
The first answers of the team's own sessions are used for the first three arms where
there are enough of them, at no extra cost.

Scorers: match (the number or word in the last line), exact, includes, choice, pattern
(the target is a regular expression), command (the target is a command that succeeds in
a copy of the answer's files, with the text in the file $CONCLAVE_ANSWER), checks (the
question's checks all pass) and model_graded (by the agent of --grader). A question's
own scorer comes first; without any it is choice for questions with choices, else
match. Checks of a question with another scorer are given to the team.

Every question is a session eval-ID-QUESTION-EPOCH[-ARM]. Ctrl-C stops asking; the same
command continues, and pays nothing twice. OUT has samples.jsonl, summary.json and
index.html with the page of each session.

Exit codes: 0 every question has an outcome, 1 wrong usage and nothing asked, 2 no
answer could be scored, or questions are left, 3 below --fail-under, 4 interrupted.`,
		Example: `  conclave eval run questions.jsonl --config team.yaml
  conclave eval run questions.jsonl --config team.yaml --limit 30 --concurrency 2 --max-cost-usd 5
  conclave eval run questions.jsonl --config team.yaml --arms single,majority:5,team,team=other.yaml
  conclave eval run questions.jsonl --config team.yaml --fail-under "team>=single"
  conclave eval run gsm8k.jsonl --config team.yaml --field input=question --field target=answer
  conclave eval run code.jsonl --scorer command --config coders.yaml --json | jq .verdict`,
		Args: hall.Arguments("DATA.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), c, kinds{session, pipeline}, f, args[0])
		},
	}
	f.add(cmd.Flags())
	team.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

func (f *flags) add(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringVar(&f.arms, "arms", eval.DefaultArms, "`LIST` of ways to answer")
	set.StringToStringVar(&f.fields, "field", nil, "read a question's field from another, as in input=question,target=answer (repeatable)")
	set.StringVar(&f.scorer, "scorer", "", "`NAME`: "+strings.Join(eval.Scorers(), ", "))
	set.IntVar(&f.epochs, "epochs", 1, "ask each question `N` times")
	set.IntVar(&f.limit, "limit", 0, "ask only the first `N` questions (default all)")
	set.IntVar(&f.concurrency, "concurrency", 4, "ask `N` questions at a time")
	set.Int64Var(&f.tokens, "max-total-tokens", 0, "ask no further question after `N` tokens (default no limit)")
	set.Float64Var(&f.usd, "max-cost-usd", 0, "ask no further question after `X` dollars (default no limit)")
	set.StringVar(&f.id, "id", "", "`ID` of the evaluation (default a hash of questions, team and scorer)")
	set.StringVar(&f.out, "out", "", "write to `DIR` (default eval-ID)")
	set.StringVar(&f.failUnder, "fail-under", "", "exit 3 unless `EXPR` holds: an accuracy of the team such as 0.8, or team>=single")
	set.StringVar(&f.grader, "grader", "", "configuration `FILE` of the one agent that grades for model_graded")
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
}

func reportCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "report ID|DIR",
		Short: "Print the report of an evaluation",
		Long: `Print the report of an evaluation from the outcomes in its directory, complete or not, and
write its summary.json and index.html anew. ID stands for the directory eval-ID. Nothing
is asked.`,
		Example: `  conclave eval report 3f9a01bc
  conclave eval report out/arithmetic --json | jq .team`,
		Args: hall.Arguments("ID|DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return report(c, args[0]) },
	}
}

func compareCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two evaluations on the questions that both have",
		Long: `Compare the arms that two evaluations have in common, on the questions and epochs that
both have: B less A, with its interval and the exact p-value. A and B are IDs or
directories.`,
		Example: `  conclave eval compare before after
  conclave eval compare 3f9a01bc 77d0e2aa --json | jq '.pairs[] | select(.a == "team")'`,
		Args: hall.Arguments("A", "B"),
		RunE: func(_ *cobra.Command, args []string) error { return compare(c, args[0], args[1]) },
	}
}

func genCommand(c *hall.CLI) *cobra.Command {
	var o generate.Options
	var kinds []string
	cmd := &cobra.Command{
		Use:   "gen",
		Short: "Generate questions with known answers",
		Long: `Print generated questions as a data set: arithmetic (stories with numbers), choice
(multiple choice), strings (letters and words) and code (small Python functions with
example tests for the team and hidden tests for the score). The same seed gives the same
questions.`,
		Example: `  conclave eval gen --seed 7 > questions.jsonl
  conclave eval gen --seed 7 --count 100 --kinds arithmetic,strings > hard.jsonl`,
		Args: hall.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			o.Kinds = kinds
			data, err := generate.Questions(o)
			if err != nil {
				return fmt.Errorf("eval gen: %w", err)
			}
			return c.Print(string(data))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Uint64Var(&o.Seed, "seed", rand.Uint64N(1_000_000), "`N` from which all questions follow")
	cmd.Flags().Lookup("seed").DefValue = "a random one"
	cmd.Flags().IntVar(&o.Count, "count", 40, "`N` questions")
	cmd.Flags().StringSliceVar(&kinds, "kinds", generate.Kinds(), "`LIST` of kinds, in turn")
	return cmd
}
