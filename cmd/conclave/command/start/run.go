package start

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"conclave/activities"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run/teams"

	"conclave/engine/config"
	"conclave/engine/coordination"
	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/session/directory"
	"conclave/engine/step"
)

// errStepTime is the cause of a step that exceeded its time limit.
var errStepTime = errors.New("timeout_settings.orchestrator_timeout_seconds have passed without an action; set a higher value")

// errStepBudget is the error of a step whose allowance is used up.
var errStepBudget = errors.New("the allowance of orchestrator.budget is spent without an action")

// runStep records even a step that took no action, so that the same command can continue it.
func runStep(ctx context.Context, c *cli.CLI, f stepFlags, query string) error {
	o, err := newStepOrder(c, f, query)
	if err != nil {
		return err
	}
	if err := o.worker.Serves(ctx, withName(o.team)); err != nil {
		return err
	}
	s, err := newStepRunner(c, o)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.startFrom(ctx); err != nil {
		return err
	}
	limit := time.Duration(o.team.Timeouts.OrchestratorTimeoutSeconds) * time.Second
	limited, stop := context.WithTimeoutCause(ctx, limit, errStepTime)
	defer stop()
	l, err := s.prepareStep(limited)
	if err != nil {
		return s.concludeStep(ctx, preparedStep{}, step.Result{}, err)
	}
	s.introduceStep(l)
	result, err := step.Run(limited, s.ports, l.spec)
	if err != nil && result.Step == 0 && limited.Err() == nil { // it could not be claimed
		err = &directory.UnusableError{Err: err}
	}
	for _, warning := range result.Warnings {
		c.Warnf("%s", warning)
	}
	return s.concludeStep(ctx, l, result, err)
}

// introduceStep prints which step starts. For programs it prints only the note on the built-in model.
func (s *stepRunner) introduceStep(l preparedStep) {
	if note := teams.OfflineNoteOf(config.Team{Agents: []config.Agent{s.agent}}); note != "" {
		s.cli.Infof("%s", note)
	}
	if s.cli.Scripted() {
		return
	}
	action := "begins a step"
	if l.resumed > 0 {
		action = fmt.Sprintf("continues step %d", l.resumed)
	}
	if shared := s.local.SharedServers(s.agent); len(shared) > 0 {
		s.cli.Infof("scope: session of %s counts as scope: step: every conclave step starts MCP servers of its own; conclave run shares them", strings.Join(shared, ", "))
	}
	s.cli.Infof("%s %s in %s · shown %s", s.agent.ID, action, s.dir, cli.Plural(len(l.launch.Shown), "answer"))
	s.ports.Progress = func(p step.Progress) {
		if p.Last == loop.Reply {
			s.cli.Infof("step %d · %s", p.Step, cli.Cost(p.Usage))
		}
	}
}

// concludeStep records and prints the end of a step, and returns the exit code as an error.
func (s *stepRunner) concludeStep(ctx context.Context, l preparedStep, r step.Result, err error) error {
	if err == nil {
		s.forgetStep(l.token, l.lock)
		return s.printAction(l.last)
	}
	end := stepOutcomeOf(ctx, err)
	if end.code == cli.ExitUsage {
		if l.lock != nil {
			l.lock.Remove()
		}
		return err
	}
	saving, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer stop()
	if l.lock == nil { // it was not launched and cannot be continued
		var bareErr error
		if l, bareErr = s.unlaunchedStep(saving); bareErr != nil {
			return errors.Join(err, bareErr)
		}
	}
	if end.kind == budgetSpent {
		err = errStepBudget
	}
	kept := s.releaseStep(saving, l, r, end)
	cause := artifact.Error{Type: end.kind, Message: err.Error()}
	*l.last = kept.LastAction(s.agent.ID, cause, artifact.Timestamp(s.ports.Now())) // printed even if it cannot be written
	if saveErr := step.Abandon(saving, s.ports, l.spec, kept, cause); saveErr != nil {
		s.cli.Warnf("last_action.json was not written: %v", saveErr)
	}
	if s.cli.Scripted() {
		if printErr := s.cli.PrintJSON(l.last); printErr != nil {
			return printErr
		}
	}
	return &cli.ExitError{Code: end.code, Err: s.explainEnd(l, r, end, err)}
}

// saveTime is the maximum time for recording a step without an action.
const saveTime = 10 * time.Second

// releaseStep keeps the journal of a step that can be continued and deletes that of a final one.
func (s *stepRunner) releaseStep(ctx context.Context, l preparedStep, r step.Result, end stepOutcome) step.Result {
	if l.lock == nil {
		return r
	}
	if end.final {
		step.Forget(ctx, s.store, l.spec.Layout.Journals(l.spec.Token))
		s.forgetStep(l.token, l.lock)
		return r
	}
	r.Transcript = nil
	l.lock.Release()
	return r
}

func (s *stepRunner) forgetStep(token string, lock *directory.Lock) {
	_ = s.root.Remove(strings.TrimSuffix(artifact.Layout{}.Journals(token), "/"))
	lock.Remove()
}

// explainEnd returns the error for a step without an action, with the way to continue it.
func (s *stepRunner) explainEnd(l preparedStep, r step.Result, end stepOutcome, err error) error {
	why := fmt.Errorf("%s took no action: %w", s.agent.ID, err)
	if end.code == cli.ExitInterrupted {
		why = fmt.Errorf("interrupted: %s took no action", s.agent.ID)
	}
	if l.last.PartialPath != nil {
		why = fmt.Errorf("%w; its files are in %s, and the same command begins with them", why, *l.last.PartialPath)
	}
	switch {
	case l.lock == nil || r.Step == 0 || end.final || !directory.HasJournal(s.root, l.token):
		return why
	case !s.named:
		return fmt.Errorf("%w; with the id %s in the configuration the same command continues step %d", why, s.agent.ID, r.Step)
	case end.kind == budgetSpent:
		return fmt.Errorf("%w; with a higher budget the same command continues step %d", why, r.Step)
	}
	return fmt.Errorf("%w; the same command continues step %d, --fresh starts a new one", why, r.Step)
}

// printAction prints the action of a step. Programs get last_action.json.
func (s *stepRunner) printAction(last *artifact.LastAction) error {
	if s.cli.Scripted() {
		return s.cli.PrintJSON(last)
	}
	action := ""
	switch coordination.Action(last.Action) {
	case coordination.NewAnswer:
		action = *last.AnswerText
	case coordination.Vote:
		action = fmt.Sprintf("%s votes for %s: %s", last.AgentID, *last.VoteTarget, *last.VoteReason)
	default:
		action = last.AgentID + " stops"
	}
	if err := s.cli.PrintAnswer(action); err != nil {
		return err
	}
	s.cli.Infof("\n%s · step %d · %s · %s", last.AgentID, last.StepNumber, last.Action, cli.Cost(last.Cost))
	if last.WorkspacePath != nil {
		s.cli.Infof("files: %s", *last.WorkspacePath)
	}
	return nil
}

// Error types in last_action.json that do not exist for steps under Temporal.
const (
	stepInterrupted = "Interrupted"
	stepTimeout     = "Timeout"
	budgetSpent     = "BudgetSpent"
	nothingOffered  = "NothingOffered"
)

// stepOutcome is the end of a step without an action.
type stepOutcome struct {
	code  int
	kind  string // the error's type in last_action.json
	final bool   // continuing the step would end the same way
}

// stepOutcomeOf classifies the error of a step. Errors in the directory before the step are usage
// errors.
func stepOutcomeOf(ctx context.Context, err error) stepOutcome {
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return stepOutcome{code: cli.ExitInterrupted, kind: stepInterrupted}
	case errors.Is(err, errStepTime):
		return stepOutcome{code: cli.ExitTimeout, kind: stepTimeout}
	case step.Wraps[*directory.UnusableError](err):
		return stepOutcome{code: cli.ExitUsage}
	case step.Wraps[*directory.NothingOfferedError](err):
		return stepOutcome{code: cli.ExitNoAnswer, kind: nothingOffered, final: true}
	case activities.Lacks(err, activities.ToolsUnavailable):
		return stepOutcome{code: cli.ExitNoAnswer, kind: activities.ToolsUnavailable}
	}
	if ended, ok := errors.AsType[*loop.EndedError](err); ok && ended.Why == loop.EndAllowance {
		return stepOutcome{code: cli.ExitNoAnswer, kind: budgetSpent}
	}
	class, ok := step.Classify(err)
	if !ok {
		return stepOutcome{code: cli.ExitNoAnswer, kind: activities.Internal}
	}
	o := stepOutcome{code: cli.ExitNoAnswer, kind: class.Type, final: class.Final}
	if class.Type == step.TimeOver {
		o.code = cli.ExitTimeout
	}
	if model, ok := errors.AsType[*llm.Error](err); ok {
		// The key or the address may be corrected before the next launch.
		o.final = model.Kind == llm.ContextTooLong || model.Kind == llm.ContentPolicy
	}
	return o
}
