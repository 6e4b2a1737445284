package step

import (
	"context"
	"errors"
	"fmt"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// record is one object of a journal: the lines and file changes since the previous one.
type record struct {
	Attempt int            `json:"attempt"`
	Writer  string         `json:"writer"` // unique to the attempt
	Lines   []Line         `json:"lines"`
	Files   artifact.Delta `json:"files,omitzero"`

	// From is the token of the step from which the lines were copied. Their usage is
	// counted there, except for Uncounted.
	From      string     `json:"from,omitempty"`
	Uncounted *llm.Usage `json:"uncounted,omitempty"`
}

// usage returns the usage to be counted for the records of a step.
func usage(records []record) llm.Usage {
	var sum llm.Usage
	for _, r := range records {
		if r.Uncounted != nil {
			sum = sum.Add(*r.Uncounted)
		}
		for _, l := range r.Lines {
			if r.From == "" {
				sum = sum.Add(l.Spent())
			}
		}
	}
	return sum
}

// flush writes the waiting lines, of which e is the last, and, if tools have run, the workspace's
// changes. It does not wait for the write of a reply.
func (j *journal) flush(ctx context.Context, e loop.Entry) error {
	if err := j.settle(); err != nil {
		return err
	}
	r := record{Attempt: j.spec.Attempt.Number, Writer: j.writer, Lines: j.waiting}
	if !calledModel(e) {
		delta, err := j.ws.changes(ctx)
		if err != nil {
			return err
		}
		r.Files = delta
	}
	r.Files = j.left.Join(r.Files)
	j.waiting, j.left, j.writing, j.last = nil, artifact.Delta{}, r.Files, e.Kind
	j.pending = make(chan error, 1)
	go func(pending chan<- error, seq int) { pending <- j.create(ctx, r, seq) }(j.pending, j.written+1)
	if e.Kind == loop.Reply {
		return nil
	}
	return j.settle()
}

// settle waits for the object that is being written, and returns the error of its write.
func (j *journal) settle() error {
	if j.pending == nil {
		return nil
	}
	err := <-j.pending
	j.pending = nil
	if err != nil {
		return err
	}
	j.written, j.files = j.written+1, j.files.Join(j.writing)
	j.progress()
	return nil
}

// create writes a redacted object. If two attempts write the same one, the later attempt
// continues.
func (j *journal) create(ctx context.Context, r record, seq int) error {
	key := j.spec.Layout.Journal(j.spec.Token, seq)
	var err error
	if r.Lines, err = j.ports.redactLines(r.Lines); err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	err = artifact.CreateJSON(ctx, j.ports.Store, key, r)
	if errors.Is(err, artifact.ErrExists) {
		existing, readErr := artifact.ReadJSON[record](ctx, j.ports.Store, key)
		switch {
		case errors.Is(readErr, artifact.ErrNotFound):
			return errBehind // removed, as after a commit
		case readErr != nil:
			err = readErr
		case existing.Writer == j.writer: // written, and its response was lost
			err = nil
		case existing.Attempt < j.spec.Attempt.Number:
			return errBehind
		default:
			return errOvertaken
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	return nil
}
