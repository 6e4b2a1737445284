package step

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
)

// maxClaims bounds the search for a free number. No session has so many steps: a longer
// run of taken numbers indicates a foreign writer.
const maxClaims = 1000

// claim claims the first free number above After, or finds the claim of an earlier
// attempt of the launch.
func (a *attempt) claim(ctx context.Context) error {
	s, store := a.spec, a.ports.Store
	mine := artifact.Claim{
		Token: s.Token, SeenSteps: s.Shown.Seen, Labels: s.Shown.Labels, Agents: s.Shown.Agents, StartedAt: artifact.Timestamp(a.ports.Now()),
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
		if s.Reserve != nil && (errors.Is(err, artifact.ErrNotFound) || is[*artifact.MalformedError](err)) {
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

// create writes the claim of a number; artifact.ErrExists if it is taken.
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

// Find looks for the commit of a lost attempt without running the step. It returns
// artifact.ErrNotFound without a commit; Result.Step is set if a number was claimed.
func Find(ctx context.Context, p Ports, s Spec) (Result, error) {
	a := newAttempt(p, s)
	for n := s.After + 1; n <= s.After+maxClaims; n++ {
		existing, err := artifact.ReadJSON[artifact.Claim](ctx, p.Store, s.Dir(n)+"step.json")
		if err != nil {
			return a.result, err
		}
		if existing.Token == s.Token {
			a.result.Step = n
			break
		}
	}
	if a.result.Step == 0 {
		return a.result, artifact.ErrNotFound
	}
	c, err := readCommit(ctx, p.Store, a.dir())
	if err == nil {
		err = a.finishCommit(ctx, c)
	}
	return a.result, err
}
