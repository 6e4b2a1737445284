package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"conclave/engine/files/artifact"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// Errors of a journal with two writers.
var (
	// errOvertaken reports that a later attempt is running, so this one must end.
	errOvertaken = errors.New("a later attempt of the step is at work")

	// errBehind reports that an earlier attempt wrote after this one had read the journal,
	// which must be read again.
	errBehind = errors.New("an earlier attempt of the step has gone on")
)

// journal makes entries durable: every reply before a tool or the model is called again, and every batch
// of tool results with the changed files. Entries that cost nothing to repeat, such as an opening or an
// elision, wait for the next of those. The commit replaces the entry of the action, and transcript.jsonl,
// which is stored before the commit, the object of the reply that the action is in.
type journal struct {
	*attempt
	writer  string
	written int            // number of objects written
	waiting []Line         // lines for the next object
	stored  int            // number of waiting lines that transcript.jsonl has
	owing   bool           // a reply waits
	left    artifact.Delta // files of an earlier step, for the first object
	files   artifact.Delta // all files so far, which are stored even if their object is not
	spent   llm.Usage
	last    loop.EntryKind

	transcript bytes.Buffer
}

func (j *journal) appendEntry(ctx context.Context, e loop.Entry) error {
	// Usage counts even if the entry is lost.
	j.spent = j.spent.Add(e.Spent())
	j.result.Usage = j.spent
	if err := j.admitEntry(ctx, e); err != nil {
		return err
	}
	l := Line{Time: artifact.Timestamp(j.ports.Now()), Entry: e}
	j.waiting = append(j.waiting, l)
	if err := j.addLine(l); err != nil { // written before the entry: a write that is cut short may have succeeded
		return err
	}
	j.last = e.Kind
	if j.owing = j.owing || e.Kind == loop.Reply; mustJournal(e) && (e.Kind != loop.Reply || len(j.left.Changed)+len(j.left.Removed) > 0) {
		if err := j.flushLines(ctx, !calledModel(e)); err != nil {
			return err
		}
	}
	j.reportProgress()
	return nil
}

func (j *journal) reportProgress() {
	if j.ports.Progress != nil {
		j.ports.Progress(Progress{Step: j.result.Step, Last: j.last, Usage: j.result.Usage, Kept: j.written})
	}
}

// admitEntry returns the reason why an entry must not be written. A reply that was paid for is written even
// if another attempt may have replaced this one: if both write the same entry, create lets one succeed.
func (j *journal) admitEntry(ctx context.Context, e loop.Entry) error {
	if !calledModel(e) {
		return j.ports.checkAlive(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// mustJournal reports whether an entry must not be repeated, because it cost a model call or
// because tools have run.
func mustJournal(e loop.Entry) bool {
	switch e.Kind {
	case loop.Reply, loop.Wasted, loop.Compacted, loop.Rejection, loop.Awaited:
		return true
	case loop.Refused:
		return e.Usage != nil
	case loop.Results:
		return e.Action == nil
	case loop.Updated: // one that withdrew an action follows its tools
		return slices.ContainsFunc(e.Messages, func(m llm.Message) bool { return m.Role == llm.ToolRole })
	}
	return false
}

// calledModel reports whether an entry results from a model call, during which no tool runs.
func calledModel(e loop.Entry) bool {
	switch e.Kind {
	case loop.Reply, loop.Wasted, loop.Compacted, loop.Refused:
		return true
	}
	return false
}

func (j *journal) addLine(l Line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if data, err = j.ports.redactJSON(data); err != nil {
		return err
	}
	j.transcript.Write(data)
	j.transcript.WriteByte('\n')
	return nil
}

// restoreJournal replays the journal of earlier attempts, or copies the journal of the step to
// resume. It restores the files, begins the transcript and returns the entries.
func (a *attempt) restoreJournal(ctx context.Context) ([]loop.Entry, error) {
	j := a.journal
	records, err := readJournal(ctx, a.ports.Store, a.spec.Layout, a.spec.Token)
	if err != nil {
		return nil, err
	}
	j.written = len(records)
	if len(records) == 0 && a.spec.Attempt.ResumeFrom != "" {
		if records, err = j.takeOver(ctx); err != nil {
			return nil, err
		}
	}
	a.origin = originOf(records, a.spec.Token)
	deltas, err := a.initialFiles(ctx)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		if j.left, err = a.leftFiles(ctx); err != nil {
			return nil, err
		}
		deltas = append(deltas, j.left)
	}
	if !a.fresh {
		if j.waiting, err = readReply(ctx, a.ports.Store, a.dir(), records); err != nil {
			return nil, err
		}
		j.stored, j.owing = len(j.waiting), len(j.waiting) > 0
	}
	var entries []loop.Entry
	records = append(records, record{Lines: j.waiting})
	for _, r := range records {
		deltas = append(deltas, r.Files)
		for _, l := range r.Lines {
			entries = append(entries, l.Entry)
			if err := j.addLine(l); err != nil {
				return nil, err
			}
		}
	}
	if err := a.ws.copy.Apply(ctx, deltas...); err != nil {
		return nil, fmt.Errorf("restore the files of the step: %w", err)
	}
	a.ws.touched.addFiles(nil)
	j.files = artifact.Delta{}.Join(deltas...)
	// The reported usage of earlier attempts may miss the last entries of the journal, or
	// include a call that was not journaled.
	if spent := usageOf(records); spent.ModelCalls > j.spent.ModelCalls {
		j.spent = spent
	}
	j.spent = j.spent.Add(a.discarded)
	a.result.Usage = j.spent
	j.reportProgress()
	return entries, nil
}

// initialFiles returns the files that the workspace starts with.
func (a *attempt) initialFiles(ctx context.Context) ([]artifact.Delta, error) {
	if a.spec.Shown.Files == "" {
		return nil, nil
	}
	c, err := artifact.LoadChange(ctx, a.ports.Store, a.spec.Layout, a.spec.Shown.Files)
	if err != nil {
		return nil, fmt.Errorf("read the initial files of the step: %w", err)
	}
	return []artifact.Delta{c.Delta()}, nil
}

// takeOver copies the journal of the step to resume and ends the original, so that an attempt
// that still writes to it fails. The original is kept until the session ends, because after a
// workflow reset it is taken over again.
func (j *journal) takeOver(ctx context.Context) ([]record, error) {
	from, uncounted, old, err := j.endResumed(ctx)
	if err != nil || len(old) == 0 {
		return nil, err
	}
	taken := record{Attempt: j.spec.Attempt.Number, Writer: j.writer, From: from, Origin: originOf(old, from)}
	if spent := usageOf(old); uncounted && spent.ModelCalls > 0 {
		taken.Uncounted = &spent
	}
	var deltas []artifact.Delta
	for _, r := range old {
		taken.Lines = append(taken.Lines, r.Lines...)
		deltas = append(deltas, r.Files)
	}
	taken.Files = taken.Files.Join(deltas...)
	resumed := Line{Time: artifact.Timestamp(j.ports.Now()), Entry: loop.Entry{Kind: loop.Resumed}}
	taken.Lines = append(taken.Lines, resumed)
	if err := j.createRecord(ctx, taken, 1); err != nil {
		return nil, err
	}
	j.written = 1
	return []record{taken}, nil
}

// endResumed ends the journal of the step to resume. If that step was suspended before it had
// a journal, endResumed ends the journal of the step that it had resumed itself.
func (j *journal) endResumed(ctx context.Context) (token string, uncounted bool, records []record, err error) {
	token, uncounted = j.spec.Attempt.ResumeFrom, j.spec.Attempt.Uncounted
	for below := j.result.Step; token != ""; {
		var claim artifact.Claim
		if below, claim, err = j.claimOf(ctx, token, below); err != nil {
			break
		}
		if records, err = j.closeJournal(ctx, token, below); err != nil || len(records) > 0 {
			break
		}
		token, uncounted = claim.ResumeFrom, claim.Uncounted
	}
	return token, uncounted, records, err
}

// closeJournal reads the journal of the step with a number and a token, and closes it with a final record.
func (j *journal) closeJournal(ctx context.Context, token string, number int) ([]record, error) {
	for {
		records, err := readJournal(ctx, j.ports.Store, j.spec.Layout, token)
		if err != nil {
			return nil, err
		}
		key := j.spec.Layout.Journal(token, len(records)+1)
		reply, err := readReply(ctx, j.ports.Store, j.spec.Dir(number), records)
		if err != nil || len(records)+len(reply) == 0 {
			return nil, err
		}
		records = append(records, record{Lines: reply})
		err = artifact.CreateJSON(ctx, j.ports.Store, key, record{Attempt: math.MaxInt, Writer: j.writer})
		if errors.Is(err, artifact.ErrExists) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("end the journal of the step to resume: %w", err)
		}
		return records, nil
	}
}

func readJournal(ctx context.Context, store artifact.Store, layout artifact.Layout, token string) ([]record, error) {
	var records []record
	for seq := 1; ; seq++ {
		r, err := artifact.ReadJSON[record](ctx, store, layout.Journal(token, seq))
		if errors.Is(err, artifact.ErrNotFound) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the journal of the step: %w", err)
		}
		records = append(records, r)
	}
}

// readReply returns the reply whose action an attempt of the step was about to commit, with the lines before
// it that the journal does not have: transcript.jsonl has them, if it has those of the journal, too.
func readReply(ctx context.Context, store artifact.Store, dir string, records []record) ([]Line, error) {
	raw, err := store.Get(ctx, dir+transcriptFile)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil
	}
	lines, parseErr := parseLines(dir+transcriptFile, raw)
	if err != nil || parseErr != nil || len(lines) == 0 || lines[len(lines)-1].Action == nil {
		return nil, err
	}
	journaled, err := rawLines(records)
	if err != nil || len(journaled) >= len(lines) {
		return nil, err
	}
	same, err := rawLines([]record{{Lines: lines[:len(lines)-1]}})
	for i, l := range journaled {
		if err == nil && !bytes.Equal(l.Raw, same[i].Raw) {
			return nil, nil
		}
	}
	return same[len(journaled):], err
}

// originOf returns the token of the step that wrote the last reply of a journal, whose own token is given.
func originOf(records []record, own string) string {
	for _, r := range slices.Backward(records) {
		if slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Kind == loop.Reply }) && r.From != "" {
			return r.Origin
		}
		if slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Kind == loop.Reply }) {
			return own
		}
	}
	return own
}

// record is one object of a journal: the lines and file changes since the previous one.
type record struct {
	Attempt int            `json:"attempt"`
	Writer  string         `json:"writer"` // unique to the attempt
	Lines   []Line         `json:"lines"`
	Files   artifact.Delta `json:"files,omitzero"`

	// From is the token of the step from which the lines were copied. Their usage is
	// counted there, except for Uncounted. Origin is the token of the step that wrote the last reply among them.
	From      string     `json:"from,omitempty"`
	Origin    string     `json:"origin,omitempty"`
	Uncounted *llm.Usage `json:"uncounted,omitempty"`

	// Spent is the usage of the step with that of earlier attempts, of which some may be in no line.
	Spent *llm.Usage `json:"spent,omitempty"`

	stored int // number of lines that an earlier attempt has stored in transcript.jsonl
}

func usageOf(records []record) llm.Usage {
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
		if r.Spent != nil {
			sum = *r.Spent
		}
	}
	return sum
}

// flushLines writes the waiting lines and, if tools have run, the workspace's changes.
func (j *journal) flushLines(ctx context.Context, ran bool) error {
	spent := j.spent // which goes on
	r := record{Attempt: j.spec.Attempt.Number, Writer: j.writer, Lines: j.waiting, Files: j.left, Spent: &spent, stored: j.stored}
	if ran {
		delta, err := j.ws.takeChanges(ctx)
		if err != nil {
			return err
		}
		r.Files = j.left.Join(delta)
	}
	j.waiting, j.stored, j.owing, j.left, j.files = nil, 0, false, artifact.Delta{}, j.files.Join(r.Files)
	if err := j.createRecord(ctx, r, j.written+1); err != nil {
		return err
	}
	j.written++
	return nil
}

// writeReply writes the reply that waits, if there is one.
func (j *journal) writeReply(ctx context.Context) error {
	if !j.owing {
		return nil
	}
	err := j.flushLines(ctx, false)
	if err == nil {
		j.reportProgress()
	}
	return err
}

// admitCall returns the reason why neither the model nor a tool may be called, or nil.
func (j *journal) admitCall(ctx context.Context) error {
	if err := j.writeReply(ctx); err != nil {
		return err
	}
	return j.ports.checkAlive(ctx)
}

// createRecord writes a redacted object. If two attempts write the same one, the later attempt continues.
func (j *journal) createRecord(ctx context.Context, r record, seq int) error {
	key := j.spec.Layout.Journal(j.spec.Token, seq)
	var err error
	if r.Lines, err = j.ports.redactLines(r.Lines); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
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
			if r.From == "" {
				j.discarded = j.discarded.Add(usageOf([]record{{Lines: r.Lines[r.stored:]}}))
			}
			return errBehind
		default:
			return errOvertaken
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}
