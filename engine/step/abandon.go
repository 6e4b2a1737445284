package step

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
)

// Leave stores the transcript and the files of a step that ended itself or was suspended.
// Its number stays taken.
func Leave(ctx context.Context, p Ports, s Spec, r Result) error {
	_, err := leave(ctx, p, s, r)
	return err
}

// leave implements Leave and returns the path of the stored files; it is nil without files. If
// another attempt has committed, the commit has its own transcript and files: leave only mends them.
func leave(ctx context.Context, p Ports, s Spec, r Result) (partial *string, err error) {
	if r.Step == 0 {
		return nil, nil
	}
	committed, err := mendCommitted(ctx, p.Store, s, r.Step)
	if err != nil || committed || len(r.Transcript) == 0 {
		return nil, err
	}
	if partial, err = leavePartial(ctx, p.Store, s, r); err != nil {
		return nil, err
	}
	if err := leaveTranscript(ctx, p.Store, s, r); err != nil {
		return nil, fmt.Errorf("writing the transcript of %s: %w", s.Dir(r.Step), err)
	}
	// Another attempt may have committed meanwhile.
	if committed, err = mendCommitted(ctx, p.Store, s, r.Step); err != nil || !committed {
		return partial, err
	}
	Forget(ctx, p.Store, s.Dir(r.Step)+partialDir+"/")
	return nil, p.Store.Delete(ctx, s.Dir(r.Step)+partialFile)
}

// mendCommitted mends the transcript of a committed step, and reports whether the step is one.
func mendCommitted(ctx context.Context, store artifact.Store, s Spec, number int) (committed bool, err error) {
	c, err := readCommit(ctx, store, s.Dir(number))
	switch {
	case err == nil:
		return true, mendTranscript(ctx, store, s.Layout, s.Dir(number), c)
	case errors.Is(err, artifact.ErrNotFound):
		return false, nil
	case Wraps[*artifact.MalformedError](err):
		return true, nil
	}
	return false, err
}

// leaveTranscript writes transcript.jsonl. It keeps the content that it replaces as a blob, because
// another attempt may be about to commit it.
func leaveTranscript(ctx context.Context, store artifact.Store, s Spec, r Result) error {
	key := s.Dir(r.Step) + transcriptFile
	err := store.Create(ctx, key, r.Transcript)
	if !errors.Is(err, artifact.ErrExists) {
		return err
	}
	replaced, err := store.Get(ctx, key)
	if err != nil || bytes.Equal(replaced, r.Transcript) {
		return err
	}
	if _, err := artifact.PutBlob(ctx, store, s.Layout, replaced); err != nil {
		return err
	}
	return store.Put(ctx, key, bytes.NewReader(r.Transcript))
}

// Abandon stores the transcript, the files and the documents of a step that was given up
// because of cause. Secrets are redacted.
func Abandon(ctx context.Context, p Ports, s Spec, r Result, cause artifact.Error) error {
	partial, err := leave(ctx, p, s, r)
	if err != nil {
		return err
	}
	if r.Step > 0 && (r.StartedAt.IsZero() || s.Agent == "") {
		// The result of an attempt that never ran has only the number.
		if claim, err := artifact.ReadJSON[artifact.Claim](ctx, p.Store, s.Dir(r.Step)+"step.json"); err == nil && claim.Token == s.Token {
			r.StartedAt, s.Agent = claim.StartedAt, cmp.Or(s.Agent, claim.Agent)
		}
	}
	cause.Message = string(p.redact([]byte(cause.Message)))
	last := r.LastAction(s.Agent, cause, artifact.Timestamp(p.Now()))
	last.PartialPath = partial
	switch {
	case s.Abandoned != nil:
		return writeAll(ctx, p.Store, s.Abandoned(last))
	case r.Step == 0:
		return nil
	}
	return write(ctx, p.Store, Document{Key: s.Dir(r.Step) + "last_action.json", Body: last, Replace: true})
}

// Forget deletes the journals under a prefix, whose steps will not be resumed. It ignores
// failures: leftovers are harmless.
func Forget(ctx context.Context, store artifact.Store, prefix string) {
	var keys []string
	for key, err := range store.List(ctx, prefix) {
		if err != nil {
			break
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		_ = store.DeleteAll(ctx, keys)
	}
}

// LastAction returns the last_action.json of a step that was abandoned because of cause.
func (r Result) LastAction(agent string, cause artifact.Error, at time.Time) artifact.LastAction {
	last := artifact.LastAction{AgentID: agent, Action: "none", Timestamp: at, StepNumber: r.Step, Cost: r.Usage, Error: &cause}
	if !r.StartedAt.IsZero() {
		last.DurationSeconds = max(0, at.Sub(r.StartedAt).Seconds()) // the clocks of workers differ
	}
	return last
}
