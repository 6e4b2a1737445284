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

// Transcript is what is on record of what happened in a step.
type Transcript struct {
	Claim  artifact.Claim
	Commit *artifact.Commit // nil without an action

	// Over says that nothing will be added under the step's number. Without it the
	// step runs, or was cut off and has not gone on yet, and Lines are what its
	// journal has kept so far.
	Over  bool
	Lines []Line
}

// Line is one line of a transcript.
type Line struct {
	Time time.Time
	loop.Entry

	Raw []byte // the line as JSON, without its end
}

// Usage is what the step itself used: not what a step used that it goes on from.
func (t Transcript) Usage() llm.Usage {
	if t.Commit != nil {
		return t.Commit.Usage
	}
	var u llm.Usage
	for _, l := range t.Lines {
		switch {
		case l.Kind == loop.Resumed:
			u = llm.Usage{}
		case l.Usage != nil:
			u = u.Add(*l.Usage)
		}
	}
	return u
}

// ReadTranscript reads the transcript of the step in dir, a key prefix that ends
// in "/"; of a step that is not over, what its journal has. It fails with
// artifact.ErrNotFound if nobody has claimed the step.
func ReadTranscript(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string) (Transcript, error) {
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, store, dir+"step.json")
	if err != nil {
		return Transcript{}, fmt.Errorf("reading the claim of %s: %w", dir, err)
	}
	t := Transcript{Claim: claim}
	if err := t.readKept(ctx, store, layout, dir); err != nil || t.Over {
		return t, err
	}
	if t.Lines, err = journaled(ctx, store, layout, claim.Token); err != nil {
		return t, err
	}
	// The step may have ended between the two looks, and its journal with it.
	return t, t.readKept(ctx, store, layout, dir)
}

// readKept reads what a step leaves that is over, if it is. The transcript comes
// before the commit: of a step that has both, both are seen.
func (t *Transcript) readKept(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string) error {
	key := dir + "transcript.jsonl"
	raw, err := store.Get(ctx, key)
	found := err == nil
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("reading the transcript of %s: %w", dir, err)
	}
	commit, err := committed(ctx, store, dir)
	switch {
	case err == nil:
		t.Commit = &commit
	case !errors.Is(err, artifact.ErrNotFound):
		return err
	}
	if !found && t.Commit != nil && t.Commit.Transcript != "" {
		// Committed, and nobody has made the file of it yet.
		key = layout.Blob(t.Commit.Transcript)
		if raw, err = store.Get(ctx, key); err != nil {
			return fmt.Errorf("reading the transcript that %saction.json commits: %w", dir, err)
		}
		found = true
	}
	if t.Over = found || t.Commit != nil; !found {
		return nil
	}
	t.Lines, err = parseLines(key, raw)
	return err
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
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, &artifact.MalformedError{Key: key, Err: fmt.Errorf("line %d: %w", number, err)}
		}
		lines = append(lines, Line{Time: l.Time, Entry: l.Entry, Raw: text})
	}
	return lines, nil
}

// journaled returns the lines that a journal holds, as a transcript would.
func journaled(ctx context.Context, store artifact.Store, layout artifact.Layout, token string) ([]Line, error) {
	j := &journal{ports: Ports{Store: store}, spec: Spec{Layout: layout}}
	records, err := j.read(ctx, token)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, r := range records {
		for _, l := range r.Lines {
			raw, err := json.Marshal(l)
			if err != nil {
				return nil, fmt.Errorf("reading the journal of the step: %w", err)
			}
			lines = append(lines, Line{Time: l.Time, Entry: l.Entry, Raw: raw})
		}
	}
	return lines, nil
}
