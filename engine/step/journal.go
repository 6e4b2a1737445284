package step

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// journal collects a step's entries, which become its transcript, and passes
// them on to the one that outlives the attempt, if there is one.
type journal struct {
	kept       Journal // nil for none
	result     *Result
	spent      llm.Usage // by earlier attempts
	conv       llm.Usage // by this one
	now        func() time.Time
	alive      func(context.Context) error
	progress   func(Progress)
	transcript bytes.Buffer
}

// line is one line of transcript.jsonl.
type line struct {
	Time time.Time `json:"time"`
	loop.Entry
}

// Append implements loop.Journal.
func (j *journal) Append(ctx context.Context, e loop.Entry) error {
	if e.Usage != nil {
		// Paid is paid, whether the entry counts or not.
		j.conv = j.conv.Add(*e.Usage)
		j.result.Usage = j.spent.Add(j.conv)
	}
	if err := j.alive(ctx); err != nil {
		return err
	}
	if j.kept != nil {
		if err := j.kept.Append(ctx, e); err != nil {
			return err
		}
	}
	if err := j.write(e); err != nil {
		return err
	}
	if j.progress != nil {
		j.progress(Progress{Step: j.result.Step, Last: e.Kind, Usage: j.result.Usage})
	}
	return nil
}

// write adds an entry to the transcript.
func (j *journal) write(e loop.Entry) error {
	data, err := json.Marshal(line{Time: artifact.Timestamp(j.now()), Entry: e})
	if err != nil {
		return err
	}
	j.transcript.Write(append(data, '\n'))
	return nil
}

// restore folds the entries of earlier attempts into conv. Their usage is in
// what was spent already.
func (j *journal) restore(ctx context.Context, conv *loop.Conversation) error {
	if j.kept == nil {
		return nil
	}
	entries, err := j.kept.Entries(ctx)
	if err != nil {
		return fmt.Errorf("reading the journal of the step: %w", err)
	}
	for _, e := range entries {
		if err := j.write(e); err != nil {
			return err
		}
		conv.Add(e)
	}
	return nil
}
