package step

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxClaims bounds the search for a free number. No session has so many steps, so a longer
// run of taken numbers indicates another writer.
const maxClaims = 1000

// claimNumber claims the first free number above After, or finds the claim of an earlier
// attempt of the launch.
func (a *attempt) claimNumber(ctx context.Context) error {
	s, store := a.spec, a.ports.Store
	mine := artifact.Claim{
		Token: s.Token, SeenSteps: s.Shown.Seen, Labels: s.Shown.Labels, Agents: s.Shown.Agents, StartedAt: artifact.Timestamp(a.ports.Now()),
		Agent: s.Agent, Query: s.Query, ResumeFrom: s.Attempt.ResumeFrom, Uncounted: s.Attempt.Uncounted,
	}
	for n := s.After + 1; n <= s.After+maxClaims; n++ {
		err := s.createClaim(ctx, store, n, mine)
		if err == nil {
			a.fresh, a.result.Step, a.result.StartedAt = true, n, mine.StartedAt
			return nil
		}
		if !errors.Is(err, artifact.ErrExists) {
			return fmt.Errorf("claim step %d: %w", n, err)
		}
		existing, err := artifact.ReadJSON[artifact.Claim](ctx, store, s.Dir(n)+"step.json")
		if s.Reserve != nil && (errors.Is(err, artifact.ErrNotFound) || Wraps[*artifact.MalformedError](err)) {
			continue // taken without a claim
		}
		if err != nil {
			return fmt.Errorf("read the claim of step %d: %w", n, err)
		}
		if existing.Token == s.Token {
			a.result.Step, a.result.StartedAt = n, existing.StartedAt
			return nil
		}
	}
	return fmt.Errorf("no free step number in %s after %d tries", s.Dir(s.After+1), maxClaims)
}

// createClaim writes the claim of a number, or fails with artifact.ErrExists if the number is taken.
func (s Spec) createClaim(ctx context.Context, store artifact.Store, number int, c artifact.Claim) error {
	if s.Reserve != nil {
		free, err := s.Reserve(ctx, number)
		if err != nil {
			return err
		}
		if !free {
			return artifact.ErrExists
		}
	}
	return artifact.CreateJSON(ctx, store, s.Dir(number)+"step.json", c)
}

// claimOf returns the number and the claim of the agent's step with the given token. It
// searches below a number, and returns zero values if it finds no such step.
func (a *attempt) claimOf(ctx context.Context, token string, below int) (int, artifact.Claim, error) {
	for n := below - 1; n > 0 && n >= a.result.Step-maxClaims; n-- {
		c, err := artifact.ReadJSON[artifact.Claim](ctx, a.ports.Store, a.spec.Dir(n)+"step.json")
		switch {
		case errors.Is(err, artifact.ErrNotFound), Wraps[*artifact.MalformedError](err):
		case err != nil:
			return 0, artifact.Claim{}, fmt.Errorf("look for the step to resume: %w", err)
		case c.Token == token:
			return n, c, nil
		}
	}
	return 0, artifact.Claim{}, nil
}

// reuseCommit takes over the commit of the step to resume if that step committed without its end
// being reported.
func (a *attempt) reuseCommit(ctx context.Context) (adopted bool, err error) {
	if a.spec.Attempt.ResumeFrom == "" {
		return false, nil
	}
	s := a.spec
	s.Token = s.Attempt.ResumeFrom
	found, err := Find(ctx, a.ports, s)
	switch {
	case errors.Is(err, artifact.ErrNotFound), Wraps[*artifact.MalformedError](err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the commit of the step to resume: %w", err)
	}
	if a.result = found; !a.spec.Attempt.Uncounted {
		a.result.Usage = llm.Usage{}
	}
	return true, nil
}

// Find looks for the commit of a lost attempt without running the step. It fails with
// artifact.ErrNotFound if there is no commit; Result.Step is set if a number was claimed.
func Find(ctx context.Context, p Ports, s Spec) (Result, error) {
	a := newAttempt(p, s)
	if _, err := a.findClaim(ctx); err != nil {
		return a.result, err
	}
	c, err := readCommit(ctx, p.Store, a.dir())
	if err == nil {
		err = a.finishCommit(ctx, c)
	}
	return a.result, err
}

// Claimed reports whether the step has claimed a number.
func Claimed(ctx context.Context, store artifact.Store, s Spec) (bool, error) {
	_, err := newAttempt(Ports{Store: store}, s).findClaim(ctx)
	if errors.Is(err, artifact.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// findClaim returns the claim of the step, and sets the step's number and start from it. It
// fails with artifact.ErrNotFound if no number was claimed.
func (a *attempt) findClaim(ctx context.Context) (artifact.Claim, error) {
	for n := a.spec.After + 1; n <= a.spec.After+maxClaims; n++ {
		existing, err := artifact.ReadJSON[artifact.Claim](ctx, a.ports.Store, a.spec.Dir(n)+"step.json")
		if err != nil {
			return artifact.Claim{}, err
		}
		if existing.Token == a.spec.Token {
			a.result.Step, a.result.StartedAt = n, existing.StartedAt
			return existing, nil
		}
	}
	return artifact.Claim{}, artifact.ErrNotFound
}

// Recover reads the records of an execution that ended without reporting them: its number, its usage and,
// from its journal, its transcript and the answers of updates. It fails with artifact.ErrNotFound if no
// number was claimed. The result has no Transcript if the step has a commit.
func Recover(ctx context.Context, p Ports, s Spec) (Result, error) {
	a := newAttempt(p, s)
	claim, err := a.findClaim(ctx)
	if err != nil {
		return a.result, err
	}
	c, err := readCommit(ctx, p.Store, a.dir())
	if err == nil {
		a.result.Commit, a.result.Usage = c, c.Usage
	}
	if !errors.Is(err, artifact.ErrNotFound) {
		return a.result, err
	}
	records, err := readJournal(ctx, p.Store, s.Layout, s.Token)
	if err != nil {
		return a.result, err
	}
	reply, err := readReply(ctx, p.Store, a.dir(), records)
	if err != nil {
		return a.result, err
	}
	records = append(records, record{Lines: reply})
	// Reported usage may include a call that was not journaled.
	if spent := usageOf(records); spent.ModelCalls > a.result.Usage.ModelCalls {
		a.result.Usage = spent
	}
	a.result.Seen = s.updatedSteps(claim, records)
	initial, err := a.initialFiles(ctx)
	if err != nil {
		return a.result, err
	}
	a.result.Partial = artifact.Delta{}.Join(initial...)
	for _, r := range records {
		a.result.Partial = a.result.Partial.Join(r.Files)
	}
	lines, err := rawLines(records)
	if err == nil && len(lines) > 0 {
		lines, err = readLeft(ctx, a.ports.Store, a.spec, a.dir(), lines, &a.result.Partial)
	}
	for _, l := range lines {
		a.result.Transcript = append(append(a.result.Transcript, l.Raw...), '\n')
	}
	return a.result, err
}

// readLeft returns the result that an attempt of the step has left, if that is more than the lines of the journal:
// the end of a batch that was cut short is not journaled.
func readLeft(ctx context.Context, store artifact.Store, s Spec, dir string, lines []Line, partial *artifact.Delta) ([]Line, error) {
	t, err := ReadTranscript(ctx, store, s.Layout, dir)
	if err != nil || !t.Over || len(t.Lines) <= len(lines) {
		return lines, err
	}
	files, err := artifact.ReadJSON[artifact.Change](ctx, store, dir+partialFile)
	switch {
	case err == nil:
		*partial = files.Delta()
	case !errors.Is(err, artifact.ErrNotFound):
		return lines, err
	}
	return t.Lines, nil
}

// updatedSteps returns, by agent, the answer steps that a step was shown according to its claim
// and the updates in its journal. It returns nil if no update showed an answer.
func (s Spec) updatedSteps(c artifact.Claim, records []record) map[string]int {
	if s.Updated == nil {
		return nil
	}
	seen := make(map[string]int, len(c.Agents))
	maps.Copy(seen, c.SeenSteps)
	for _, r := range records {
		for _, l := range r.Lines {
			if l.Kind != loop.Updated {
				continue
			}
			shown := s.Updated(l.Note)
			for i, id := range c.Agents {
				if at := shown[i+1]; at > seen[id] {
					seen[id] = at
				}
			}
		}
	}
	if maps.Equal(seen, c.SeenSteps) {
		return nil
	}
	return seen
}

// Types of the engine's errors, as histories and last_action.json name them. Those
// of model calls are the llm.Kinds.
const (
	NoAction         = "NoAction"         // the model took no valid action
	TimeOver         = "TimeOver"         // the step's time ran out before it came to an action
	budgetSpent      = "BudgetSpent"      // the step spent its allowance before it took an action
	workspaceInvalid = "WorkspaceInvalid" // the files of an answer cannot be stored: too many, too large, or with names that no key can hold
	Fenced           = "Fenced"           // another attempt may be running
	Storage          = "Storage"          // the store failed
)

// Class is the type of an error and the way in which the step is retried after it.
type Class struct {
	Type  string
	Final bool          // a retry cannot cure it
	Free  bool          // does not count as an attempt without progress
	After time.Duration // the least delay before the next attempt; 0 for the caller's policy
}

// Classify returns the class of an engine error. It returns false for other errors.
func Classify(err error) (Class, bool) {
	if model, ok := errors.AsType[*llm.Error](err); ok {
		limited := model.Kind == llm.RateLimited
		return Class{Type: string(model.Kind), Final: !model.Retryable(), Free: limited, After: model.RetryAfter}, true
	}
	switch {
	case Wraps[*loop.NoActionError](err):
		return Class{Type: NoAction, Final: true}, true
	case Wraps[*loop.TimeOverError](err):
		return Class{Type: TimeOver, Final: true}, true
	case Wraps[*loop.OverspentError](err):
		return Class{Type: budgetSpent, Final: true}, true
	case Wraps[*artifact.LimitError](err), Wraps[*artifact.NameError](err):
		return Class{Type: workspaceInvalid, Final: true}, true
	case errors.Is(err, errOvertaken):
		return Class{Type: Fenced, Free: true}, true
	case Wraps[*UnwrittenError](err):
		return Class{Type: Storage, Free: true}, true
	}
	return Class{}, false
}

// Wraps reports whether the chain of err has an error of type E.
func Wraps[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
