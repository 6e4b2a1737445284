package attempt

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/coordination"
	"conclave/engine/step"
)

// Ended is the end of a step as recorded by its workflow.
type Ended struct {
	Token     string               `json:"token"`
	Suspended bool                 `json:"suspended,omitempty"` // the step will be resumed
	Cause     coordination.Failure `json:"cause,omitzero"`      // why the step was given up
	AwaySince time.Time            `json:"away_since,omitzero"` // copied from the step's launch
}

// Reckon completes the record of a step whose activity did not report its end: the step was
// cancelled while it waited for its next attempt, its worker was lost, or an operator ended it. It
// stores the partial work and returns the number and the usage of the step, and the answers that an
// update showed it. The Token is empty if there is no journal to resume from.
func (p Process) Reckon(ctx context.Context, s step.Spec, e Ended) (Failure, error) {
	defer activities.Beat(ctx)()
	ports := step.Ports{Store: p.Store, Now: p.Now, Redact: p.Redact}
	s.Token = e.Token
	r, err := step.Recover(ctx, ports, s)
	switch {
	case step.Wraps[*artifact.MalformedError](err):
		activity.GetLogger(ctx).Warn("the usage of a step is incomplete", "token", e.Token, "error", err)
	case err != nil && !errors.Is(err, artifact.ErrNotFound):
		return Failure{}, err
	}
	if e.Suspended {
		err = suspend(ctx, ports, s, r)
	} else {
		err = step.Abandon(ctx, ports, s, r, artifact.Error(e.Cause))
	}
	found := Failure{Step: r.Step, Usage: r.Usage, Seen: coordination.SeenOf(r.Seen)}
	if len(r.Transcript) > 0 {
		found.Token = e.Token
	}
	if err == nil {
		found.AwaySince, err = p.awaySince(ctx, s, r.Usage.ModelCalls, e.AwaySince)
	}
	return found, err
}
