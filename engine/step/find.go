package step

import (
	"context"

	"conclave/engine/artifact"
)

// Find looks for the step without running it: an attempt that was lost may have
// committed. It returns artifact.ErrNotFound when there is no commit; the
// number is in the Result if one was claimed.
func Find(ctx context.Context, p Ports, s Spec) (Result, error) {
	r := Result{Usage: s.Spent}
	for n := s.After + 1; n <= s.After+maxClaims; n++ {
		taken, err := artifact.ReadJSON[artifact.Claim](ctx, p.Store, s.Dir(n)+"step.json")
		if err != nil {
			return r, err
		}
		if taken.Token == s.Token {
			r.Step = n
			break
		}
	}
	if r.Step == 0 {
		return r, artifact.ErrNotFound
	}
	commit, err := committed(ctx, p.Store, s.Dir(r.Step))
	if err != nil {
		return r, err
	}
	return r, settle(ctx, p, s, &r, commit)
}
