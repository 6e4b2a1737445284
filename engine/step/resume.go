package step

import (
	"context"
	"errors"
	"fmt"
	"math"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// restore brings the workspace to where the earlier attempts came to, begins
// the transcript with what they did, and returns it. A step that goes on from
// another one begins with that one's entries.
func (j *journal) restore(ctx context.Context) ([]loop.Entry, error) {
	records, err := j.read(ctx, j.spec.Token)
	if err != nil {
		return nil, err
	}
	j.written = len(records)
	if len(records) == 0 && j.spec.ResumeFrom != "" {
		if records, err = j.takeOver(ctx); err != nil {
			return nil, err
		}
	}
	deltas, err := j.beginning(ctx)
	if err != nil {
		return nil, err
	}
	var entries []loop.Entry
	var spent llm.Usage
	for _, r := range records {
		deltas = append(deltas, r.Files)
		for _, l := range r.Lines {
			entries = append(entries, l.Entry)
			if l.Usage != nil && r.From == "" {
				spent = spent.Add(*l.Usage)
			}
			if err := j.write(l); err != nil {
				return nil, err
			}
		}
	}
	if err := j.ws.copy.Apply(ctx, deltas...); err != nil {
		return nil, fmt.Errorf("restoring the files of the step: %w", err)
	}
	// What the attempts reported may lag behind the journal, or be ahead of it by
	// a call that never got there.
	if spent.ModelCalls > j.spent.ModelCalls {
		j.spent = spent
	}
	j.result.Usage = j.spent
	return entries, nil
}

// beginning is what a workspace has before anything happened in it.
func (j *journal) beginning(ctx context.Context) ([]artifact.Delta, error) {
	if j.spec.Files == "" {
		return nil, nil
	}
	m, err := artifact.LoadManifest(ctx, j.ports.Store, j.spec.Layout, j.spec.Files)
	if err != nil {
		return nil, fmt.Errorf("reading what files the step begins with: %w", err)
	}
	return []artifact.Delta{{Changed: m.Files}}, nil
}

// takeOver copies the journal that the step goes on from into its own. That one
// ends with a record of ours: an attempt that still writes it, because it does
// not know yet that it was ended, ends with its next entry. It stays until the
// session ends: a workflow that is reset goes on from it once more.
func (j *journal) takeOver(ctx context.Context) ([]record, error) {
	old, err := j.close(ctx, j.spec.ResumeFrom)
	if err != nil || len(old) == 0 {
		return nil, err
	}
	taken := record{Attempt: j.spec.Attempt, Writer: j.writer, From: j.spec.ResumeFrom}
	var deltas []artifact.Delta
	for _, r := range old {
		taken.Lines = append(taken.Lines, r.Lines...)
		deltas = append(deltas, r.Files)
	}
	taken.Files = artifact.Join(deltas...)
	again := line{Time: artifact.Timestamp(j.ports.Now()), Entry: loop.Entry{Kind: loop.Resumed}}
	taken.Lines = append(taken.Lines, again)
	if err := j.create(ctx, taken); err != nil {
		return nil, err
	}
	return []record{taken}, nil
}

// close reads the journal of a token and ends it.
func (j *journal) close(ctx context.Context, token string) ([]record, error) {
	for {
		records, err := j.read(ctx, token)
		if err != nil || len(records) == 0 {
			return nil, err
		}
		key := j.spec.Layout.Journal(token, len(records)+1)
		err = artifact.CreateJSON(ctx, j.ports.Store, key, record{Attempt: math.MaxInt, Writer: j.writer})
		if errors.Is(err, artifact.ErrExists) {
			continue // it was written once more
		}
		if err != nil {
			return nil, fmt.Errorf("ending the journal that the step goes on from: %w", err)
		}
		return records, nil
	}
}

// read returns the journal of a token, in order.
func (j *journal) read(ctx context.Context, token string) ([]record, error) {
	var records []record
	for seq := 1; ; seq++ {
		key := j.spec.Layout.Journal(token, seq)
		r, err := artifact.ReadJSON[record](ctx, j.ports.Store, key)
		if errors.Is(err, artifact.ErrNotFound) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the journal of the step: %w", err)
		}
		records = append(records, r)
	}
}

// interrupted are the calls that an earlier attempt may have begun to run: those
// of a last reply that has no results.
func interrupted(entries []loop.Entry) map[string]bool {
	calls := map[string]bool{}
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.Kind == loop.Resumed {
			continue
		}
		if e.Kind == loop.Reply && len(e.Messages) > 0 {
			for _, call := range e.Messages[0].ToolCalls {
				calls[call.ID] = true
			}
		}
		break
	}
	return calls
}
