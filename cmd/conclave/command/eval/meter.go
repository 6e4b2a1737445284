package eval

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/teams"
	"conclave/engine/eval"
	"conclave/engine/llm"
	"conclave/engine/text"
	sessionflow "conclave/workflows/session"
)

// meter counts questions, time and cost. It prints a line for each question whose
// outcomes are complete. It is safe for concurrent use.
type meter struct {
	*runner
	began time.Time

	mu    sync.Mutex
	total int // number of questions and epochs
	left  int
	asked int       // questions asked in this run
	paid  llm.Usage // usage of earlier runs
	run   llm.Usage // usage of this run
}

// newMeter counts the questions that lack an outcome and the costs of the outcomes that exist.
func newMeter(r *runner) *meter {
	m := &meter{runner: r, total: r.plan.questionCount(), began: time.Now()}
	for epoch := 1; epoch <= r.plan.epochs; epoch++ {
		for _, q := range r.plan.questions {
			if len((&unit{runner: r, q: q, epoch: epoch}).missingArms()) > 0 {
				m.left++
			}
		}
	}
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	m.paid = sumPaid(r.out.samples)
	return m
}

func sumPaid(samples []eval.Sample) (sum llm.Usage) {
	for _, s := range samples {
		sum = sum.Add(s.Paid)
	}
	return sum
}

func countTokens(u llm.Usage) int64 { return u.InputTokens + u.OutputTokens }

func (m *meter) printStart() {
	if note := m.plan.offlineNote(); note != "" {
		m.cli.Infof("%s", note)
	}
	m.cli.Infof("evaluation %s: %s in the arms %s; %d left", m.plan.id, cli.Plural(m.total, "question"), strings.Join(m.plan.armNames(), ", "), m.left)
	m.cli.Infof("team from %s: %s", m.plan.source, teams.Describe(m.plan.team))
}

// isSpent reports whether a limit of the evaluation is used up.
func (m *meter) isSpent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.paid.Add(m.run)
	return m.plan.tokens > 0 && countTokens(all) >= m.plan.tokens || m.plan.usd > 0 && all.AtLeastUSD() >= m.plan.usd
}

// printOutcome prints the outcomes of a question, the number of remaining questions and their expected
// cost.
func (m *meter) printOutcome(u *unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	m.asked++
	m.run = m.run.Add(u.spent)
	line := fmt.Sprintf("%d of %d · %s: %s", m.total-m.left, m.total, u.q.ID, u.outcomeWords())
	if m.left > 0 {
		share := float64(m.left) / float64(m.asked)
		line += " · about " + cli.Clock(time.Duration(float64(time.Since(m.began))*share)) + " left"
		if more := float64(countTokens(m.run)) * share; more > 0 {
			line += ", " + cli.Count(int64(more)) + " more tokens"
		}
		if usd := m.run.TotalUSD; usd != nil && *usd > 0 {
			line += fmt.Sprintf(", $%.2f more", *usd*share)
		}
	}
	m.cli.Infof("%s", line)
}

func (u *unit) samplesOf() []eval.Sample {
	u.out.mu.Lock()
	defer u.out.mu.Unlock()
	var own []eval.Sample
	for _, s := range u.out.samples {
		if s.ID == u.q.ID && s.Epoch == u.epoch {
			own = append(own, s)
		}
	}
	return own
}

func (u *unit) outcomeWords() string {
	const longest = 160 // bytes of a reason
	var told, why []string
	for _, s := range u.samplesOf() {
		told = append(told, s.Arm+" "+s.Outcome())
		if reason := text.Truncate(cli.Line(s.Failed), longest); reason != "" && !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	if len(why) > 0 {
		return strings.Join(told, ", ") + " (" + strings.Join(why, "; ") + ")"
	}
	return strings.Join(told, ", ")
}

func (p *plan) questionCount() int { return len(p.questions) * p.epochs }

func (p *plan) armNames() []string {
	return text.Each(p.arms, func(arm eval.Arm) string { return arm.Name })
}

// offlineNote returns the note on the first team that asks no model server, or "".
func (p *plan) offlineNote() string {
	for _, t := range p.allTeams() {
		if note := teams.OfflineNoteOf(t); note != "" {
			return note
		}
	}
	return ""
}

func (p *plan) outputSettings(c *cli.CLI, file string) settings {
	return settings{
		ID: p.id, Data: file, DataHash: p.hash, Team: p.team.Hash(), Others: p.otherHashes(), Source: p.source, Scorer: p.scorer,
		Arms: p.armNames(), Epochs: p.epochs, Questions: len(p.questions), Version: c.Version, Offline: p.offlineNote(), Identity: p.team.Identity(),
	}
}

func (p *plan) otherHashes() map[string]string {
	hashes := map[string]string{}
	for _, arm := range p.arms {
		if arm.Other != "" {
			hashes[arm.Slug()] = p.others[arm.Name].Hash()
		}
	}
	if p.graderHash != "" {
		hashes["grader"] = p.graderHash
	}
	return hashes
}

// Kind is a kind of runs that an evaluation starts and awaits.
type Kind[R any] struct {
	*runs.Kind
	Await func(context.Context, *cli.Connection, runs.Run) (R, error)
}

// Kinds are the kinds of runs that an evaluation starts.
type Kinds struct {
	Session  Kind[sessionflow.Result]
	Pipeline Kind[acts.Result]
}

// runner asks the questions of a plan.
type runner struct {
	cli      *cli.CLI
	plan     *plan
	conn     *cli.Connection
	worker   *teams.Worker
	kinds    Kinds
	out      *output
	material *materials
	offline  bool // the built-in model answers
}

// runEvaluation connects only if a question lacks an outcome, because connecting may start a stack.
func runEvaluation(ctx context.Context, c *cli.CLI, k Kinds, f flags, file string) error {
	t, w, err := teams.Open(c)
	if err != nil {
		return err
	}
	p, err := newPlan(c, t, w, f, file)
	if err != nil {
		return err
	}
	if err := w.Serves(ctx, p.allTeams()...); err != nil {
		return err
	}
	out, err := openOutput(p.out, p.outputSettings(c, file))
	if err != nil {
		return err
	}
	defer out.close()
	r := &runner{cli: c, plan: p, worker: w, kinds: k, out: out, offline: p.offlineNote() != ""}
	if newMeter(r).left == 0 {
		return r.concludeEvaluation(ctx, nil)
	}
	return c.With(ctx, t, func(conn *cli.Connection) error {
		if conn.Store == nil {
			return errors.New("eval reads the answers from the bucket of the cluster's sessions: name it with --bucket (and --prefix)")
		}
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		if err := out.settings.claimID(ctx, conn.Store); err != nil {
			return err
		}
		stop, err := teams.RunWorker(conn, w, "eval-"+p.id)
		if err != nil {
			return err
		}
		defer stop()
		r.conn, r.material = conn, &materials{conn: conn, dir: p.dir, refs: map[string]string{}}
		return r.concludeEvaluation(ctx, r.askQuestions(ctx))
	})
}

// errBudget stops an evaluation that has reached a limit.
var errBudget = errors.New("the limit is spent")

func (r *runner) askQuestions(ctx context.Context) error {
	meter := newMeter(r)
	meter.printStart()
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(r.plan.concurrency)
	for epoch := 1; epoch <= r.plan.epochs; epoch++ {
		for _, q := range r.plan.questions {
			u := newUnit(r, q, epoch)
			if len(u.missingArms()) == 0 {
				continue
			}
			group.Go(func() error {
				if together.Err() != nil {
					return together.Err()
				}
				if meter.isSpent() {
					return errBudget
				}
				if err := u.askArms(together); err != nil {
					return err
				}
				meter.printOutcome(u)
				return nil
			})
		}
	}
	return group.Wait()
}

// concludeEvaluation writes and prints the report, and returns the exit code.
func (r *runner) concludeEvaluation(ctx context.Context, asking error) error {
	s, err := r.out.writeReport()
	if err != nil {
		return err
	}
	left := newMeter(r).left
	if len(s.Order) > 0 && (asking == nil || errors.Is(asking, errBudget)) {
		if err := printSummary(r.cli, s); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return cli.Exitf(cli.ExitInterrupted, "interrupted: %d of %d questions have no outcome yet; the same command goes on", left, r.plan.questionCount())
	case errors.Is(asking, errBudget):
		return cli.Exitf(cli.ExitNoAnswer, "the limit of --max-total-tokens or --max-cost-usd is spent: %d of %d questions have no outcome; the same command with a higher limit goes on", left, r.plan.questionCount())
	case cli.ExitCode(asking) == cli.ExitNoAnswer:
		return asking
	case asking != nil:
		return cli.Exitf(cli.ExitNoAnswer, "%d of %d questions have no outcome: %w; the same command goes on", left, r.plan.questionCount(), asking)
	case !slices.ContainsFunc(r.out.samples, func(s eval.Sample) bool { return s.Correct != nil }):
		return cli.Exitf(cli.ExitNoAnswer, "no answer could be scored: all of them failed, or have no line ANSWER: …; `%s` shows one, and another --id asks again", r.cli.CommandLine("result", r.out.samples[0].SessionID))
	}
	r.cli.Infof("%s has the report with the page of each session", filepath.Join(r.out.dir, pageFile))
	if r.plan.condition != nil {
		if err := r.plan.condition.Check(s); err != nil {
			return cli.Exitf(exitBelow, "%w", err)
		}
	}
	return nil
}

// exitBelow is the exit code of an evaluation that fails the condition of --fail-under.
const exitBelow = 3
