package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave/engine/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Transcript is the record of a step.
type Transcript struct {
	Claim  artifact.Claim
	Commit *artifact.Commit // nil without an action

	// Over is set if nothing more will be added under the step's number. Otherwise the step
	// is running or was interrupted, and Lines come from its journal.
	Over  bool
	Lines []Line
}

// Line is one entry of the journal and one line of transcript.jsonl.
type Line struct {
	Time time.Time `json:"time"`
	loop.Entry

	// Raw is the line as JSON, without its newline. Only ReadTranscript sets it.
	Raw []byte `json:"-"`
}

// Usage returns the usage of the step, without that of a step that it resumed.
func (t Transcript) Usage() llm.Usage {
	if t.Commit != nil {
		return t.Commit.Usage
	}
	var u llm.Usage
	for _, l := range t.Lines {
		if l.Kind == loop.Resumed {
			u = llm.Usage{}
		}
		u = u.Add(l.Spent())
	}
	return u
}

// ReadTranscript reads the transcript of the step in dir, a key prefix that ends in "/". For
// a step that is not over it reads the journal. It fails with artifact.ErrNotFound if the
// step is unclaimed.
func ReadTranscript(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string) (Transcript, error) {
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, store, dir+"step.json")
	if err != nil {
		return Transcript{}, fmt.Errorf("reading the claim of %s: %w", dir, err)
	}
	t := Transcript{Claim: claim}
	if err := t.readFinal(ctx, store, layout, dir); err != nil || t.Over {
		return t, err
	}
	if t.Lines, err = journalLines(ctx, store, layout, claim.Token); err != nil {
		return t, err
	}
	// The step, and with it the journal, may have ended in between.
	return t, t.readFinal(ctx, store, layout, dir)
}

// readFinal reads the commit and the transcript of a step that is over.
func (t *Transcript) readFinal(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string) error {
	commit, err := readCommit(ctx, store, dir)
	switch {
	case err == nil:
		t.Commit, t.Over = &commit, true
	case !errors.Is(err, artifact.ErrNotFound):
		return err
	}
	raw, err := ReadCommitted(ctx, store, layout, dir, commit)
	if errors.Is(err, artifact.ErrNotFound) && commit.Transcript == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the transcript of %s: %w", dir, err)
	}
	t.Lines, err = parseLines(dir+transcriptFile, raw)
	t.Over = t.Over || !t.AwaitsCommit()
	return err
}

// transcriptFile is the transcript of a step, in the step's directory.
const transcriptFile = "transcript.jsonl"

// ReadCommitted reads the transcript that a commit in dir names, or transcript.jsonl if c is zero. That
// file may be of another attempt, or not written yet: then the content of the commit is a blob. Without
// one the record is damaged, and ReadCommitted returns the file.
func ReadCommitted(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string, c artifact.Commit) ([]byte, error) {
	data, err := store.Get(ctx, dir+transcriptFile)
	missing := errors.Is(err, artifact.ErrNotFound)
	if err != nil && !missing || c.Transcript == "" || !missing && artifact.SumOf(data) == c.Transcript {
		return data, err
	}
	blob, blobErr := store.Get(ctx, layout.Blob(c.Transcript))
	if errors.Is(blobErr, artifact.ErrNotFound) {
		return data, err
	}
	return blob, blobErr
}

// AwaitsCommit reports whether the transcript ends with an action, which is written just
// before the commit.
func (t Transcript) AwaitsCommit() bool {
	return t.Commit == nil && len(t.Lines) > 0 && t.Lines[len(t.Lines)-1].Action != nil
}

// parseLines reads the lines of a transcript.
func parseLines(key string, raw []byte) ([]Line, error) {
	var lines []Line
	number := 0
	for text := range bytes.Lines(raw) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		l := Line{Raw: text}
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, &artifact.MalformedError{Key: key, Err: fmt.Errorf("line %d: %w", number, err)}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// journalLines returns the lines of a journal in the form of a transcript.
func journalLines(ctx context.Context, store artifact.Store, layout artifact.Layout, token string) ([]Line, error) {
	records, err := readJournal(ctx, store, layout, token)
	if err != nil {
		return nil, err
	}
	return rawLines(records)
}

func rawLines(records []record) (lines []Line, err error) {
	for _, r := range records {
		for _, l := range r.Lines {
			if l.Raw, err = json.Marshal(l); err != nil {
				return nil, fmt.Errorf("reading the journal of the step: %w", err)
			}
			lines = append(lines, l)
		}
	}
	return lines, nil
}
