package agent

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
)

// maxNumbers bounds how many numbers of others are passed over, as a workflow that
// was reset has to.
const maxNumbers = 10_000

// reserve takes the first free number above that of the newest segment, or finds the
// one that an earlier attempt took. Directories have the names of steps beside their
// numbers: without this, two steps could have the same one.
func (s Step) reserve(ctx context.Context, store artifact.Store) (int, error) {
	for n := s.Launch.After + 1; n <= s.Launch.After+maxNumbers; n++ {
		key := s.Layout.File(fmt.Sprintf("claims/%03d.json", n))
		err := artifact.CreateJSON(ctx, store, key, artifact.Claim{Token: s.Token})
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, artifact.ErrExists) {
			return 0, fmt.Errorf("reserving the number %d: %w", n, err)
		}
		taken, err := artifact.ReadJSON[artifact.Claim](ctx, store, key)
		if err != nil {
			return 0, fmt.Errorf("reading who has the number %d: %w", n, err)
		}
		if taken.Token == s.Token {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no free number after %d tries", maxNumbers)
}
