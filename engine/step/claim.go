package step

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
)

// maxClaims bounds the search for a free number: more taken numbers in a row
// than a session has steps means that something else is writing here.
const maxClaims = 1000

// claim takes the first free number above s.After, or finds the one that an
// earlier attempt of the same launch took, and leaves it in r. It reports
// whether the claim is fresh: nobody had it before.
func claim(ctx context.Context, p Ports, s Spec, r *Result) (c artifact.Claim, fresh bool, err error) {
	mine := artifact.Claim{
		Token: s.Token, SeenSteps: s.Seen, Labels: s.Labels, Agents: s.Agents, StartedAt: artifact.Timestamp(p.Now()),
	}
	for n := s.After + 1; n <= s.After+maxClaims; n++ {
		key := s.Dir(n) + "step.json"
		err := s.claim(ctx, p.Store, n, mine)
		if err == nil {
			r.Step, r.StartedAt = n, mine.StartedAt
			return mine, true, nil
		}
		if !errors.Is(err, artifact.ErrExists) {
			return artifact.Claim{}, false, fmt.Errorf("claiming step %d: %w", n, err)
		}
		taken, err := artifact.ReadJSON[artifact.Claim](ctx, p.Store, key)
		if s.Take != nil && unclaimed(err) {
			continue
		}
		if err != nil {
			return artifact.Claim{}, false, fmt.Errorf("reading who claimed step %d: %w", n, err)
		}
		if taken.Token == s.Token {
			r.Step, r.StartedAt = n, taken.StartedAt
			return taken, false, nil
		}
	}
	return artifact.Claim{}, false, fmt.Errorf("no free step number in %s after %d tries", s.Dir(s.After+1), maxClaims)
}

// claim creates a claim under a number; artifact.ErrExists if somebody has it.
func (s Spec) claim(ctx context.Context, store artifact.Store, number int, c artifact.Claim) error {
	if s.Take != nil {
		free, err := s.Take(ctx, number)
		if err != nil {
			return err
		}
		if !free {
			return artifact.ErrExists
		}
	}
	return artifact.CreateJSON(ctx, store, s.Dir(number)+"step.json", c)
}

// unclaimed reports of a number that is taken that nobody says by a claim that it
// is his.
func unclaimed(err error) bool {
	var malformed *artifact.MalformedError
	return errors.Is(err, artifact.ErrNotFound) || errors.As(err, &malformed)
}
