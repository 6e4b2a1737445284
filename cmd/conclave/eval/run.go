package eval

import (
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/eval"
)

// kinds describe the runs that an evaluation starts.
type kinds struct{ session, pipeline *runs.Kind }

// runner asks the questions of a plan.
type runner struct {
	cli      *hall.CLI
	plan     *plan
	conn     *hall.Connection
	worker   *team.Worker
	kinds    kinds
	out      *output
	material *materials
	offline  bool // the built-in model answers
}

// run checks the input, asks the questions that lack an outcome, and reports.
func run(ctx context.Context, c *hall.CLI, k kinds, f flags, file string) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	w, err := team.OpenWorker(c, t)
	if err != nil {
		return err
	}
	p, err := newPlan(c, t, w, f, file)
	if err != nil {
		return err
	}
	if err := w.Serves(ctx, p.teams()...); err != nil {
		return err
	}
	out, err := open(p.out, p.settings(c, file))
	if err != nil {
		return err
	}
	defer out.close()
	r := &runner{cli: c, plan: p, worker: w, kinds: k, out: out, offline: p.playsOffline()}
	if newMeter(r).left == 0 {
		return r.conclude(ctx, nil)
	}
	return c.With(ctx, t, func(conn *hall.Connection) error {
		if conn.Store == nil {
			return errors.New("eval reads the answers from the bucket of the cluster's sessions: name it with --bucket (and --prefix)")
		}
		if err := conn.CheckBucket(ctx); err != nil {
			return err
		}
		if err := out.settings.claim(ctx, conn.Store); err != nil {
			return err
		}
		stop, err := team.RunWorker(conn, w, "eval-"+p.id)
		if err != nil {
			return err
		}
		defer stop()
		r.conn, r.material = conn, &materials{conn: conn, dir: p.dir, refs: map[string]string{}}
		return r.conclude(ctx, r.askAll(ctx))
	})
}

// errBudget stops an evaluation that has reached a limit.
var errBudget = errors.New("the limit is spent")

// askAll gives every question an outcome in every arm and epoch.
func (r *runner) askAll(ctx context.Context) error {
	meter := newMeter(r)
	meter.begin()
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(r.plan.concurrency)
	for epoch := 1; epoch <= r.plan.epochs; epoch++ {
		for _, q := range r.plan.questions {
			u := newUnit(r, q, epoch)
			if len(u.missing()) == 0 {
				continue
			}
			group.Go(func() error {
				if together.Err() != nil {
					return together.Err()
				}
				if meter.spent() {
					return errBudget
				}
				if err := u.run(together); err != nil {
					return err
				}
				meter.done(u)
				return nil
			})
		}
	}
	return group.Wait()
}

// conclude writes and prints the report, and returns the exit code.
func (r *runner) conclude(ctx context.Context, asking error) error {
	s, err := r.out.finish()
	if err != nil {
		return err
	}
	left := newMeter(r).left
	if len(s.Order) > 0 && (asking == nil || errors.Is(asking, errBudget)) {
		if err := show(r.cli, s); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return hall.Exitf(hall.ExitInterrupted, "interrupted: %d of %d questions have no outcome yet; the same command goes on", left, r.plan.size())
	case errors.Is(asking, errBudget):
		return hall.Exitf(hall.ExitNoAnswer, "the limit of --max-total-tokens or --max-cost-usd is spent: %d of %d questions have no outcome; the same command with a higher limit goes on", left, r.plan.size())
	case hall.ExitCode(asking) == hall.ExitNoAnswer:
		return asking
	case asking != nil:
		return hall.Exitf(hall.ExitNoAnswer, "%d of %d questions have no outcome: %w; the same command goes on", left, r.plan.size(), asking)
	case !scored(r.out.samples):
		return hall.Exitf(hall.ExitNoAnswer, "no answer could be scored: all of them failed, or have no line ANSWER: …; `%s` shows one, and another --id asks again", r.cli.CommandLine("result", r.out.samples[0].SessionID))
	}
	r.cli.Infof("%s has the report with the page of each session", filepath.Join(r.out.dir, pageFile))
	if r.plan.condition != nil {
		if err := r.plan.condition.Check(s); err != nil {
			return hall.Exitf(exitBelow, "%w", err)
		}
	}
	return nil
}

// exitBelow is the exit code of an evaluation that fails the condition of --fail-under.
const exitBelow = 3

func scored(samples []eval.Sample) bool {
	for _, s := range samples {
		if s.Correct != nil {
			return true
		}
	}
	return false
}
