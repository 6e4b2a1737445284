package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/activities/offline"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/config"
	"conclave/engine/eval"
)

// plan is the validated input of an evaluation.
type plan struct {
	flags
	id        string
	dir       string // directory of the data set, to which its paths are relative
	hash      string // hash of the data set
	questions []eval.Question
	arms      []eval.Arm
	condition *eval.Condition
	team      config.Team
	source    string
	others    map[string]config.Team // teams of other arms, by arm
	grader    *config.Agent

	graderHash string // hash of the grader's configuration; empty without a grader
}

// newPlan checks the flags and reads all files, so that an evaluation with invalid input does not
// start.
func newPlan(c *cli.CLI, t cli.Target, w *teams.Worker, f flags, file string) (*plan, error) {
	p := &plan{flags: f, dir: filepath.Dir(file), others: map[string]config.Team{}}
	if err := f.checkValues(); err != nil {
		return nil, err
	}
	if err := p.readQuestions(c, file); err != nil {
		return nil, err
	}
	var err error
	if p.arms, err = eval.ParseArms(f.arms); err != nil {
		return nil, fmt.Errorf("--arms: %w", err)
	}
	if f.failUnder != "" {
		condition, err := eval.ParseCondition(f.failUnder, p.arms)
		if err != nil {
			return nil, fmt.Errorf("--fail-under: %w", err)
		}
		p.condition = &condition
	}
	if err := p.readTeams(c, t, w); err != nil {
		return nil, err
	}
	return p, p.chooseID()
}

func (f flags) checkValues() error {
	for name, n := range map[string]int{"--epochs": f.epochs, "--concurrency": f.concurrency} {
		if n < 1 {
			return fmt.Errorf("%s is %d; give at least 1", name, n)
		}
	}
	if f.limit < 0 || f.tokens < 0 || f.usd < 0 {
		return errors.New("--limit, --max-total-tokens and --max-cost-usd take positive numbers")
	}
	if f.scorer != "" && !slices.Contains(eval.Scorers(), f.scorer) {
		return fmt.Errorf("--scorer: no scorer %q; use %s", f.scorer, strings.Join(eval.Scorers(), ", "))
	}
	return nil
}

// maxData is the maximum size of a data set in bytes.
const maxData = 256 << 20

func (p *plan) readQuestions(c *cli.CLI, file string) error {
	data, err := teams.ReadUpTo(maxData, file)
	if err != nil {
		return fmt.Errorf("read the questions: %w", err)
	}
	var ignored []string
	if p.questions, ignored, err = (eval.DataSet{File: file, Data: data, Scorer: p.scorer, Fields: p.fields}).Read(); err != nil {
		return fmt.Errorf("read the questions of %s: %w", file, err)
	}
	if len(ignored) > 0 {
		c.Infof("%s has fields that questions do not have; they are not used: %s", file, strings.Join(ignored, ", "))
	}
	for _, to := range slices.Sorted(maps.Keys(p.fields)) {
		data = append(data, to+"="+p.fields[to]...)
	}
	sum := sha256.Sum256(data)
	p.hash = hex.EncodeToString(sum[:])
	if p.limit > 0 {
		p.questions = p.questions[:min(p.limit, len(p.questions))]
	}
	for _, q := range p.questions {
		if err := checkMaterial(p.dir, q); err != nil {
			return fmt.Errorf("read the questions of %s: question %s: %w", file, q.ID, err)
		}
	}
	graded := slices.ContainsFunc(p.questions, func(q eval.Question) bool { return q.ScoredBy(p.scorer) == eval.Graded })
	if graded && p.flags.grader == "" {
		return errors.New("the scorer model_graded needs a model that is not in the team; name the configuration of its agent with --grader")
	}
	return nil
}

func (p *plan) readTeams(c *cli.CLI, t cli.Target, w *teams.Worker) error {
	read := func(of *cli.CLI) (config.Team, string, error) {
		if t.Cluster {
			return teams.Load(of, config.Cluster, p.offline)
		}
		return teams.Local(of, w, p.offline)
	}
	var err error
	if p.team, p.source, err = read(c); err != nil {
		return err
	}
	for i := range p.questions {
		p.questions[i].Schema = p.team.AnswerSchema
	}
	for _, arm := range p.arms {
		if arm.Other == "" {
			continue
		}
		other := *c
		other.Config, other.Models, other.Agents = arm.Other, nil, 0
		if p.others[arm.Name], _, err = read(&other); err != nil {
			return fmt.Errorf("the arm %s: %w", arm.Name, err)
		}
	}
	if p.flags.grader != "" {
		single, err := teams.ReadSingle(c, teams.Source{File: p.flags.grader, Named: true}, p.offline)
		if err == nil && !t.Cluster && !p.offline {
			single, err = w.Prepare(c, single)
		}
		if err != nil {
			return fmt.Errorf("--grader: %w", err)
		}
		single = w.Resolve(single)
		p.grader, p.graderHash = &single.Agents[0], single.Hash()
	}
	return errors.Join(p.checkAnswerable(), p.checkPrices(w))
}

// checkAnswerable refuses questions that a model of known skill cannot answer.
func (p *plan) checkAnswerable() error {
	for _, t := range p.allTeams() {
		for _, a := range t.Agents {
			if a.Backend.Type != config.Offline || a.Backend.Params[config.Targets] == nil {
				continue
			}
			if err := offline.CheckQuestions(a.ID, a.Backend.Params, p.questions); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPrices refuses a limit in dollars if a model's price is unknown.
func (p *plan) checkPrices(w *teams.Worker) error {
	if p.usd == 0 {
		return nil
	}
	for _, t := range p.allTeams() {
		for _, a := range t.Models() {
			if !w.Models.Priced(a) {
				return fmt.Errorf("--max-cost-usd: the price of the model %s is unknown; set backend.price_per_million, or use --max-total-tokens", a.Backend.Model)
			}
		}
	}
	return nil
}

func (p *plan) allTeams() []config.Team {
	all := []config.Team{p.team}
	for _, arm := range p.arms {
		if arm.Other != "" {
			all = append(all, p.others[arm.Name])
		}
	}
	return all
}

// chooseID chooses the ID and the directory of the evaluation. Without a name the ID is derived
// from the questions, team and scorer.
func (p *plan) chooseID() error {
	p.id = p.flags.id
	if p.id == "" {
		canonical, err := p.team.Canonical()
		if err != nil {
			return fmt.Errorf("encode the team of %s: %w", p.source, err)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", p.hash, canonical, p.scorer))
		p.id = hex.EncodeToString(sum[:4])
	}
	if p.out == "" {
		p.out = "eval-" + p.id
	}
	for _, q := range p.questions {
		if err := cli.CheckRunID(p.sessionID(q, p.epochs, "majority-match")); err != nil {
			return fmt.Errorf("--id %s: %w; give a shorter one of letters, digits, '.', '_' and '-'", p.id, err)
		}
	}
	return nil
}

// sessionID returns the ID of a question's session. For the evaluated team arm is empty.
func (p *plan) sessionID(q eval.Question, epoch int, arm string) string {
	id := fmt.Sprintf("eval-%s-%s-%d", p.id, q.ID, epoch)
	if arm != "" {
		id += "-" + arm
	}
	return id
}

// Command returns `conclave eval`.
func Command(c *cli.CLI, k Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure whether a team is worth its tokens: run, report, compare, gen, replay, calibrate",
		Long: `Ask a data set of questions in several ways, one of which is the team, and report
accuracy and tokens of each with intervals, the differences with exact p-values, how
well the team answers and judges, and one sentence on whether it is worth its tokens.`,
		Example: `  conclave eval gen --seed 7 > questions.jsonl
  conclave eval run questions.jsonl --config team.yaml
  conclave eval report 3f9a01bc
  conclave eval compare 3f9a01bc other-eval`,
		RunE: cli.Group,
	}
	cmd.AddCommand(runCommand(c, k), reportCommand(c), compareCommand(c), genCommand(c), replayCommand(c), calibrateCommand(c))
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

func runCommand(c *cli.CLI, k Kinds) *cobra.Command {
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
		Example: `  conclave eval run questions.jsonl --model anthropic:claude-haiku-4-5
  conclave eval run questions.jsonl --config team.yaml --limit 30 --concurrency 2 --max-cost-usd 5
  conclave eval run questions.jsonl --config team.yaml --arms single,majority:5,team,team=other.yaml
  conclave eval run questions.jsonl --config team.yaml --fail-under "team>=single"
  conclave eval run gsm8k.jsonl --config team.yaml --field input=question --field target=answer
  conclave eval run code.jsonl --scorer command --config coders.yaml --json | jq .verdict`,
		Args: cli.Arguments("DATA.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runEvaluation(cmd.Context(), c, k, f, args[0])
		},
	}
	f.addTo(cmd.Flags())
	teams.ModelFlags(c, cmd.Flags())
	teams.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

func (f *flags) addTo(set *pflag.FlagSet) {
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

func reportCommand(c *cli.CLI) *cobra.Command {
	skills := ""
	cmd := &cobra.Command{
		Use:   "report ID|DIR",
		Short: "Print the report of an evaluation",
		Long: `Print the report of an evaluation from the outcomes in its directory, complete or not, and
write its summary.json and index.html anew. ID stands for the directory eval-ID. Nothing
is asked. --write-skill writes the share of right first answers of each agent into a team
file as its skill, by which ties are decided.`,
		Example: `  conclave eval report 3f9a01bc
  conclave eval report 3f9a01bc --write-skill team.yaml
  conclave eval report out/arithmetic --json | jq .team`,
		Args: cli.Arguments("ID|DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return printReport(c, args[0], skills) },
	}
	cmd.Flags().StringVar(&skills, "write-skill", "", "write the agents' skills into the team `FILE`")
	return cmd
}

func compareCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two evaluations on the questions that both have",
		Long: `Compare the arms that two evaluations have in common, on the questions and epochs that
both have: B less A, with its interval and the exact p-value. A and B are IDs or
directories.`,
		Example: `  conclave eval compare before after
  conclave eval compare 3f9a01bc 77d0e2aa --json | jq '.pairs[] | select(.a == "team")'`,
		Args: cli.Arguments("A", "B"),
		RunE: func(_ *cobra.Command, args []string) error { return compareEvaluations(c, args[0], args[1]) },
	}
}

func genCommand(c *cli.CLI) *cobra.Command {
	var o eval.QuestionOptions
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
		Args: cli.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			o.Kinds = kinds
			data, err := eval.GenerateQuestions(o)
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
	cmd.Flags().StringSliceVar(&kinds, "kinds", eval.QuestionKinds(), "`LIST` of kinds, in turn")
	return cmd
}
