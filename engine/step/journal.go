package step

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// journal collects a step's entries, which become its transcript. A lost
// attempt is begun again from its opening: entries outlive the attempt only
// with the commit.
type journal struct {
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
	data, err := json.Marshal(line{Time: artifact.Timestamp(j.now()), Entry: e})
	if err != nil {
		return err
	}
	j.transcript.Write(append(data, '\n'))
	if j.progress != nil {
		j.progress(Progress{Step: j.result.Step, Last: e.Kind, Usage: j.result.Usage})
	}
	return nil
}
