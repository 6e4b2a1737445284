package step

import (
	"bytes"
	"context"
	"fmt"

	"conclave/engine/artifact"
)

// Leave keeps the transcript of a step that ended itself or was suspended, and
// its number stays taken; nothing else tells of it.
func Leave(ctx context.Context, p Ports, s Spec, r Result) error {
	if r.Step == 0 || len(r.Transcript) == 0 {
		return nil
	}
	// What another attempt has committed has its own.
	if there, err := p.Store.Exists(ctx, s.Dir(r.Step)+"action.json"); err != nil || there {
		return err
	}
	key := s.Dir(r.Step) + "transcript.jsonl"
	if err := p.Store.Put(ctx, key, bytes.NewReader(r.Transcript)); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}

// Abandon records that the step of r was given up because of cause: what Leave
// keeps, and the documents that tell of it, without secrets.
func Abandon(ctx context.Context, p Ports, s Spec, r Result, cause artifact.Error) error {
	if err := Leave(ctx, p, s, r); err != nil {
		return err
	}
	if r.StartedAt.IsZero() && r.Step > 0 {
		// An attempt that never came to run knows the number alone.
		if claim, err := artifact.ReadJSON[artifact.Claim](ctx, p.Store, s.Dir(r.Step)+"step.json"); err == nil && claim.Token == s.Token {
			r.StartedAt = claim.StartedAt
		}
	}
	cause.Message = string(p.redact([]byte(cause.Message)))
	return writeAll(ctx, p.Store, s.Abandoned(r, cause, artifact.Timestamp(p.Now())))
}
