package step

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// maxClaims bounds the search for a free number. No session has so many steps, so a longer
// run of taken numbers indicates another writer.
const maxClaims = 1000

// claim claims the first free number above After, or finds the claim of an earlier
// attempt of the launch.
func (a *attempt) claim(ctx context.Context) error {
	s, store := a.spec, a.ports.Store
	mine := artifact.Claim{
		Token: s.Token, SeenSteps: s.Shown.Seen, Labels: s.Shown.Labels, Agents: s.Shown.Agents, StartedAt: artifact.Timestamp(a.ports.Now()),
		Agent: s.Agent, Query: s.Query, ResumeFrom: s.Attempt.ResumeFrom, Uncounted: s.Attempt.Uncounted,
	}
	for n := s.After + 1; n <= s.After+maxClaims; n++ {
		err := s.create(ctx, store, n, mine)
		if err == nil {
			a.fresh, a.result.Step, a.result.StartedAt = true, n, mine.StartedAt
			return nil
		}
		if !errors.Is(err, artifact.ErrExists) {
			return fmt.Errorf("claiming step %d: %w", n, err)
		}
		existing, err := artifact.ReadJSON[artifact.Claim](ctx, store, s.Dir(n)+"step.json")
		if s.Reserve != nil && (errors.Is(err, artifact.ErrNotFound) || Wraps[*artifact.MalformedError](err)) {
			continue // taken without a claim
		}
		if err != nil {
			return fmt.Errorf("reading the claim of step %d: %w", n, err)
		}
		if existing.Token == s.Token {
			a.result.Step, a.result.StartedAt = n, existing.StartedAt
			return nil
		}
	}
	return fmt.Errorf("no free step number in %s after %d tries", s.Dir(s.After+1), maxClaims)
}

// create writes the claim of a number, or fails with artifact.ErrExists if the number is
// taken.
func (s Spec) create(ctx context.Context, store artifact.Store, number int, c artifact.Claim) error {
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
			return 0, artifact.Claim{}, fmt.Errorf("looking for the step to resume: %w", err)
		case c.Token == token:
			return n, c, nil
		}
	}
	return 0, artifact.Claim{}, nil
}

// adopt takes over the commit of the step to resume if that step committed without its end
// being reported.
func (a *attempt) adopt(ctx context.Context) (adopted bool, err error) {
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
		return false, fmt.Errorf("looking for the commit of the step to resume: %w", err)
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

// Recover reads the records of an execution that ended without reporting them: its number,
// its usage and, from its journal, its transcript and the answers of updates. It fails with
// artifact.ErrNotFound if no number was claimed. The result has no Transcript if the step has
// a commit.
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
	// Reported usage may include a call that was not journaled.
	if spent := usage(records); spent.ModelCalls > a.result.Usage.ModelCalls {
		a.result.Usage = spent
	}
	a.result.Seen = s.updated(claim, records)
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

// updated returns, by agent, the answer steps that a step was shown according to its claim
// and the updates in its journal. It returns nil if no update showed an answer.
func (s Spec) updated(c artifact.Claim, records []record) map[string]int {
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
