package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
	"conclave/engine/text"
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

// ReadTranscript reads the transcript of the step in dir, a key prefix that ends in "/". For a step that is
// not over it reads the journal. It fails with artifact.ErrNotFound if the step is unclaimed.
func ReadTranscript(ctx context.Context, store artifact.Store, layout artifact.Layout, dir string) (Transcript, error) {
	claim, err := artifact.ReadJSON[artifact.Claim](ctx, store, dir+"step.json")
	if err != nil {
		return Transcript{}, fmt.Errorf("read the claim of %s: %w", dir, err)
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
		return fmt.Errorf("read the transcript of %s: %w", dir, err)
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

// AwaitsCommit reports whether the transcript ends with an action, which is written just before the commit.
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
				return nil, fmt.Errorf("read the journal of the step: %w", err)
			}
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// checkAlive returns the reason why the attempt must end, or nil. It also asks the lease, because a
// stopped process or a sleeping machine may continue before ctx is cancelled.
func (p Ports) checkAlive(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Lease == nil {
		return nil
	}
	return p.Lease.CheckAlive(ctx)
}

// fencedModel checks before every call that the attempt is alive and the journal written.
type fencedModel struct {
	loop.Model
	attempt *attempt
}

func (m fencedModel) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	if err := m.attempt.journal.admitCall(ctx); err != nil {
		return llm.Reply{}, err
	}
	m.attempt.origin = m.attempt.spec.Token
	return m.Model.Generate(ctx, req)
}

// fencedTools check before every run that the attempt is alive and the journal written.
type fencedTools struct{ *attempt }

func (t fencedTools) Tools() []llm.Tool { return t.ws.tools.Tools() }

func (t fencedTools) Run(ctx context.Context, call llm.ToolCall) (loop.Output, error) {
	if err := t.journal.admitCall(ctx); err != nil {
		return loop.Output{}, err
	}
	fenced, stop := t.ports.fenceRun(ctx)
	defer stop()
	out, err := t.ws.runTool(fenced, call)
	if fenced.Err() != nil { // a tool that the fence has ended may return a result
		return loop.Output{}, context.Cause(fenced)
	}
	out.Text = string(t.ports.redactText([]byte(out.Text)))
	return out, err
}

func (p Ports) fenceRun(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.Lease == nil {
		return ctx, func() {}
	}
	return p.Lease.FenceTools(ctx)
}

func (p Ports) redactText(data []byte) []byte {
	if p.Redact == nil {
		return data
	}
	return p.Redact(data)
}

// redactJSON removes secrets from the string values of a document.
func (p Ports) redactJSON(document []byte) ([]byte, error) {
	if p.Redact == nil {
		return document, nil
	}
	return text.RedactJSON(document, p.Redact)
}

func (p Ports) redactLines(lines []Line) ([]Line, error) {
	if p.Redact == nil {
		return lines, nil
	}
	clean := make([]Line, len(lines))
	for i, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		if data, err = p.redactJSON(data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &clean[i]); err != nil {
			return nil, fmt.Errorf("redact the %s: %w", l.Kind, err)
		}
	}
	return clean, nil
}
