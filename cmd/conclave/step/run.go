package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/team"

	"conclave/cmd/conclave/progress"
	"conclave/engine/artifact"
	"conclave/engine/directory"
	"conclave/engine/loop"
	"conclave/engine/step"
)

// errStepTime says that the time of a step is over.
var errStepTime = errors.New("timeout_settings.orchestrator_timeout_seconds are over, and the step has no action; they can be more")

// errStepBudget says that a step has nothing left to spend.
var errStepBudget = errors.New("what orchestrator.budget allows is spent, and the step has no action")

// run runs one step and prints its action.
func run(ctx context.Context, c *hall.CLI, f flags, query string) error {
	o, err := newOrder(c, f, query)
	if err != nil {
		return err
	}
	if err := team.CheckTools(ctx, o.tools, withName(o.team), team.ThisProcess); err != nil {
		return err
	}
	s, err := openStep(c, o)
	if err != nil {
		return err
	}
	defer s.close()
	limit := time.Duration(o.team.Timeouts.OrchestratorTimeoutSeconds) * time.Second
	limited, stop := context.WithTimeoutCause(ctx, limit, errStepTime)
	defer stop()
	l, err := s.launch(limited)
	if err != nil {
		return s.ended(ctx, launched{}, step.Result{}, err)
	}
	s.introduce(l)
	result, err := step.Run(limited, s.ports, l.spec)
	if err != nil && result.Step == 0 && limited.Err() == nil { // it could not even be claimed
		err = &directory.UnwritableError{Err: err}
	}
	for _, warning := range result.Warnings {
		c.Warnf("%s", warning)
	}
	return s.ended(ctx, l, result, err)
}

// introduce says on stderr what has begun; a script is told only what it could
// mistake.
func (s *stepSession) introduce(l launched) {
	if s.offline {
		s.cli.Infof("%s", team.OfflineNote)
	}
	if s.cli.Scripted() {
		return
	}
	what := "begins a step"
	if l.resumed > 0 {
		what = fmt.Sprintf("goes on with step %d", l.resumed)
	}
	s.cli.Infof("%s %s in %s · shown %s", s.agent.ID, what, s.dir, progress.Plural(len(l.launch.Shown), "answer"))
	s.ports.Progress = func(p step.Progress) {
		if p.Last == loop.Reply {
			s.cli.Infof("step %d · %s", p.Step, progress.Cost(p.Usage))
		}
	}
}

// ended keeps and prints how the step ended, and returns the exit code as an
// error.
func (s *stepSession) ended(ctx context.Context, l launched, r step.Result, err error) error {
	if err == nil {
		s.forget(l.token, l.lock)
		return s.print(l.last)
	}
	end := endOf(ctx, err)
	if end.code == hall.ExitUsage {
		if l.lock != nil {
			l.lock.Remove()
		}
		return err
	}
	saving, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer stop()
	if l.lock == nil { // it came to no launch: there is nothing to go on with
		var bareErr error
		if l, bareErr = s.bare(saving); bareErr != nil {
			return errors.Join(err, bareErr)
		}
	}
	if end.kind == budgetSpent {
		err = errStepBudget
	}
	kept := s.keep(saving, l, r, end)
	cause := artifact.Error{Type: end.kind, Message: err.Error()}
	l.spec.Abandoned(kept, cause, artifact.Timestamp(s.ports.Now())) // what is printed, should it not be written
	if saveErr := step.Abandon(saving, s.ports, l.spec, kept, cause); saveErr != nil {
		s.cli.Warnf("last_action.json was not written: %v", saveErr)
	}
	if s.cli.Scripted() {
		if printErr := s.cli.PrintJSON(l.last); printErr != nil {
			return printErr
		}
	}
	return &hall.ExitError{Code: end.code, Err: s.explain(l, r, end, err)}
}

// saveTime bounds the recording of a step that came to nothing.
const saveTime = 10 * time.Second

// keep settles whether the step can be gone on with. Only of one that cannot the
// transcript is made: of the other it is in the journal.
func (s *stepSession) keep(ctx context.Context, l launched, r step.Result, end stepEnd) step.Result {
	if l.lock == nil {
		return r
	}
	if end.final {
		step.Forget(ctx, s.ports, l.spec)
		s.forget(l.token, l.lock)
		return r
	}
	r.Transcript = nil
	l.lock.Release()
	return r
}

// forget lets go of a step that is over.
func (s *stepSession) forget(token string, lock *directory.Lock) {
	_ = s.root.Remove(strings.TrimSuffix(artifact.InDir().Journals(token), "/")) // empty by now
	lock.Remove()
}

// explain says why there is no action, and what the next launch does.
func (s *stepSession) explain(l launched, r step.Result, end stepEnd, err error) error {
	why := fmt.Errorf("%s came to no action: %w", s.agent.ID, err)
	if end.code == hall.ExitInterrupted {
		why = fmt.Errorf("interrupted: %s came to no action", s.agent.ID)
	}
	switch {
	case l.lock == nil || r.Step == 0 || end.final || !s.journaled(l.token):
		return why
	case !s.named:
		return fmt.Errorf("%w; with the id %s in the configuration the same command goes on with step %d", why, s.agent.ID, r.Step)
	case end.kind == budgetSpent:
		return fmt.Errorf("%w; with more the same command goes on with step %d", why, r.Step)
	}
	return fmt.Errorf("%w; the same command goes on with step %d, with --fresh it begins anew", why, r.Step)
}
