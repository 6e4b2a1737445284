package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"
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
func newPlan(c *hall.CLI, t hall.Target, w *team.Worker, f flags, file string) (*plan, error) {
	p := &plan{flags: f, dir: filepath.Dir(file), others: map[string]config.Team{}}
	if err := f.check(); err != nil {
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
	return p, p.name()
}

func (f flags) check() error {
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

func (p *plan) readQuestions(c *hall.CLI, file string) error {
	data, err := team.ReadUpTo(maxData, file)
	if err != nil {
		return fmt.Errorf("read the questions: %w", err)
	}
	var ignored []string
	if p.questions, ignored, err = (eval.DataSet{Data: data, Scorer: p.scorer, Fields: p.fields}).Read(); err != nil {
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

// readTeams reads the evaluated team, the teams of other arms and the grader.
func (p *plan) readTeams(c *hall.CLI, t hall.Target, w *team.Worker) error {
	read := func(of *hall.CLI) (config.Team, string, error) {
		if t.Cluster {
			return team.Load(of, config.Cluster, p.offline)
		}
		return team.Local(of, w, p.offline)
	}
	var err error
	if p.team, p.source, err = read(c); err != nil {
		return err
	}
	for _, arm := range p.arms {
		if arm.Other == "" {
			continue
		}
		other := *c
		other.Config = arm.Other
		if p.others[arm.Name], _, err = read(&other); err != nil {
			return fmt.Errorf("the arm %s: %w", arm.Name, err)
		}
	}
	if p.flags.grader != "" {
		single, err := team.ReadSingle(c, team.Source{File: p.flags.grader, Named: true}, p.offline)
		if err != nil {
			return fmt.Errorf("--grader: %w", err)
		}
		single = team.Resolve(single)
		p.grader, p.graderHash = &single.Agents[0], single.Hash()
	}
	return p.checkPrices(w)
}

// checkPrices refuses a limit in dollars if a model's price is unknown.
func (p *plan) checkPrices(w *team.Worker) error {
	if p.usd == 0 {
		return nil
	}
	for _, t := range p.teams() {
		for _, a := range t.Models() {
			if !w.Models.Priced(a) {
				return fmt.Errorf("--max-cost-usd: the price of the model %s is unknown; set backend.price_per_million, or use --max-total-tokens", a.Backend.Model)
			}
		}
	}
	return nil
}

// teams returns all teams of the evaluation.
func (p *plan) teams() []config.Team {
	all := []config.Team{p.team}
	for _, arm := range p.arms {
		if arm.Other != "" {
			all = append(all, p.others[arm.Name])
		}
	}
	return all
}

// name chooses the ID and the directory of the evaluation. Without a name the ID is derived
// from the questions, team and scorer.
func (p *plan) name() error {
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
		if err := hall.CheckRunID(p.session(q, p.epochs, "majority-match")); err != nil {
			return fmt.Errorf("--id %s: %w; give a shorter one of letters, digits, '.', '_' and '-'", p.id, err)
		}
	}
	return nil
}

// session returns the ID of a question's session. For the evaluated team arm is empty.
func (p *plan) session(q eval.Question, epoch int, arm string) string {
	id := fmt.Sprintf("eval-%s-%s-%d", p.id, q.ID, epoch)
	if arm != "" {
		id += "-" + arm
	}
	return id
}
