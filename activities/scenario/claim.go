package scenario

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"conclave/activities"
	"conclave/engine/artifact"
)

// claim is claims/<NNN>.json: the run belongs to a workflow from then on, the
// first one's and those that went on with it.
type claim struct {
	activities.Owner
	ConfigHash string    `json:"config_hash"`
	ClaimedAt  time.Time `json:"claimed_at"`

	// Seed is that of the vault of credentials, in the first claim.
	Seed string `json:"seed,omitempty"`

	// Before is what the run had come to; nil in the first claim.
	Before *Result `json:"before,omitempty"`
}

func claimOf(layout artifact.Layout, number int) string {
	return layout.File(fmt.Sprintf("claims/%03d.json", number))
}

func ownerOf(in PrepareInput) activities.Owner {
	return activities.Owner{WorkflowID: in.WorkflowID, FirstRunID: in.FirstRunID}
}

// claimRun makes the claim with the number, or finds it made by the same workflow.
func (a *Activities) claimRun(ctx context.Context, layout artifact.Layout, number int, in PrepareInput, c claim) (made claim, created bool, err error) {
	c.Owner, c.ClaimedAt = ownerOf(in), artifact.Timestamp(a.Now())
	if number == 1 {
		c.Seed = rand.Text()
	}
	return activities.Claim(ctx, a.Store, claimOf(layout, number), c, func(c claim) activities.Owner { return c.Owner },
		fmt.Sprintf("run %s of scenario %s", in.RunID, in.Plan.Slug), "choose another run_id, or resume it once it is over")
}

// lastClaim is the newest claim of a run, and its number; 0 for none.
func (a *Activities) lastClaim(ctx context.Context, layout artifact.Layout) (last claim, number int, err error) {
	for {
		c, err := artifact.ReadJSON[claim](ctx, a.Store, claimOf(layout, number+1))
		if errors.Is(err, artifact.ErrNotFound) {
			return last, number, nil
		}
		if err != nil {
			return last, number, fmt.Errorf("reading the claims of a run: %w", err)
		}
		last, number = c, number+1
	}
}

// runNumber gives the run the first free number of its scenario above after, or
// finds the one that it has. A number is never given twice, whatever is deleted of
// the runs.
func (a *Activities) runNumber(ctx context.Context, in PrepareInput, fresh bool) (int, error) {
	prefix := "scenarios/" + in.Plan.Slug + "/numbers/"
	highest, mine := in.After, 0
	for key, err := range a.Store.List(ctx, prefix) {
		if err != nil {
			return 0, fmt.Errorf("looking for the numbers of runs: %w", err)
		}
		n, err := strconv.Atoi(path.Base(key))
		if err != nil || n < 1 || strings.Contains(strings.TrimPrefix(key, prefix), "/") {
			continue
		}
		highest = max(highest, n)
		if fresh { // it has none
			continue
		}
		if owner, err := a.Store.Get(ctx, key); err != nil {
			return 0, fmt.Errorf("reading a number of a run: %w", err)
		} else if string(owner) == in.RunID {
			mine = n
		}
	}
	if mine > 0 {
		return mine, nil
	}
	for n := highest + 1; ; n++ {
		key := prefix + strconv.Itoa(n)
		err := a.Store.Create(ctx, key, []byte(in.RunID))
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, artifact.ErrExists) {
			return 0, fmt.Errorf("numbering run %s: %w", in.RunID, err)
		}
		if owner, err := a.Store.Get(ctx, key); err == nil && string(owner) == in.RunID {
			return n, nil // its answer was lost
		}
	}
}
