package artifact

import "context"

// ReadClaim reads the claim of a step, or fails with ErrNotFound.
func ReadClaim(ctx context.Context, store Store, layout Layout, agent string, step int) (Claim, error) {
	return ReadJSON[Claim](ctx, store, layout.Step(agent, step, "step.json"))
}

// ReadCommit reads the commit of a step, or fails with ErrNotFound. A step of
// another program has none; there answer.json or vote.json is the action.
func ReadCommit(ctx context.Context, store Store, layout Layout, agent string, step int) (Commit, error) {
	return ReadJSON[Commit](ctx, store, layout.Step(agent, step, "action.json"))
}
